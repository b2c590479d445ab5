import { hasFullRuns } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callers, type CallerCell } from './callers.ts';
import { must, openCast, type Cast } from './cast.ts';
import { cells, guesses, pages } from './cells.ts';
import { checkCells, checkPages } from './checks.ts';
import { evaluateDefaultMask } from './default-mask.ts';
import { entrances, type Asked, type Asker, type Entrance, type Told } from './entrances.ts';
import { Rules } from './expected.ts';
import { hiddenOf, type Hidden } from './hidden.ts';
import { createLeveller } from './leveller.ts';
import { fill, fillOther, states } from './states.ts';
import { openTwins, type Twins } from './twins.ts';

let twins: Twins;
beforeAll(async () => {
  twins = await openTwins();
  await evaluateDefaultMask(twins);
});
afterAll(() => twins.close());

const ids = Object.keys(states);
const readsApplications = { type: 'management', permissions: ['application:read'], rules: [] } as const;

/** A tenant with tokens, and its hidden data. */
interface Filled {
  readonly cast: Cast;
  readonly hidden: Hidden;
}

async function openFilled(): Promise<readonly [Filled, Filled]> {
  const pair = await twins.newPair();
  const [third] = await twins.newPair();
  const filledIn = async (tenantId: string, hidden: Hidden) => {
    const cast = await openCast(twins, tenantId, readsApplications);
    return { cast, hidden, ask: (asked: Asked) => must(twins, cast.author, asked) };
  };
  const one = await filledIn(pair[0], hiddenOf[0]);
  const other = await filledIn(pair[1], hiddenOf[1]);
  await fillOther(await filledIn(third, hiddenOf[0]));
  await fill(twins.clock, [one, other]);
  return [one, other];
}

/** The answers by request. Pages and guesses come first, because patches change what a mask shows. */
async function toldOf(entrance: Entrance, asker: Asker): Promise<Map<string, Told[]>> {
  const told = new Map<string, Told[]>();
  for (const [name, { asked }] of Object.entries(pages))
    told.set(name, await entrance.ask(twins, asker, asked));
  for (const id of ids)
    told.set(`get ${id}`, await entrance.ask(twins, asker, { operation: 'getToken', params: { id } }));
  for (const [name, asked] of Object.entries(guesses))
    told.set(name, await entrance.ask(twins, asker, asked));
  for (const [name, cell] of Object.entries(cells))
    for (const id of ids) told.set(`${name} ${id}`, await entrance.ask(twins, asker, cell.ask(id)));
  return told;
}

/** The answers about a token may differ between the twins only where the rules show the data. */
function checkTwins(told: readonly Map<string, Told[]>[], rules: Rules): void {
  const isRevealed = ids.some((id) => rules.seesPlaintextOf(id));
  const [one, other] = told.map((each) => {
    const level = createLeveller();
    const hidden = [...each].filter(([name]) =>
      isRevealed
        ? ids.some((id) => name.endsWith(` ${id}`) && !rules.seesPlaintextOf(id)) &&
          !name.startsWith('create')
        : true,
    );
    return hidden.map(([name, answers]) => ({ name, answers: level(answers) }));
  });
  expect(other).toEqual(one);
  if (!isRevealed)
    for (const [index, { number }] of hiddenOf.entries())
      expect(JSON.stringify([...(told[index] ?? [])])).not.toContain(number);
}

async function check(entrance: Entrance, caller: CallerCell, filled: readonly Filled[]): Promise<void> {
  const rules = new Rules(caller.expected);
  // Made before any request, because some of them move the clock.
  const askers: Asker[] = [];
  for (const { cast } of filled) askers.push(await caller.make(twins, cast.manager));
  const told: Map<string, Told[]>[] = [];
  for (const [index, asker] of askers.entries()) {
    const answers = await toldOf(entrance, asker);
    const tenant = filled[index];
    if (tenant) {
      checkPages(answers, rules, tenant.hidden);
      checkCells(answers, rules, tenant.hidden);
    }
    told.push(answers);
  }
  checkTwins(told, rules);
}

const hasRights = ({ expected }: CallerCell): boolean => expected !== undefined;
/** Each caller by one of the entrances in turn; by all of them with TEST_RUNS=full. */
const table = Object.entries(callers)
  .filter(([, caller]) => hasRights(caller))
  .flatMap(([name, caller], turn) =>
    entrances
      .filter((_entrance, index) => hasFullRuns || index === turn % entrances.length)
      .map((entrance) => ({ entrance, name, caller })),
  );

describe('each operation on a token of each state', () => {
  it.each(table)(
    'by $entrance.name as $name',
    async ({ entrance, caller }) => {
      await check(entrance, caller, await openFilled());
    },
    120_000,
  );

  // These requests change nothing, so they can run one after the other.
  it.each(entrances)(
    'by $name as each caller that has no rights any more, or not yet',
    async (entrance) => {
      const filled = await openFilled();
      for (const caller of Object.values(callers))
        if (!hasRights(caller)) await check(entrance, caller, filled);
    },
    120_000,
  );
});
