import type { Json } from '@token-vault/contracts';
import { hasFullRuns } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callers, type CallerCell } from './callers.ts';
import { openCast } from './cast.ts';
import { cells, guesses, pages } from './cells.ts';
import { evaluateDefaultMask } from './default-mask.ts';
import { entrances, type Asker, type Entrance, type Told } from './entrances.ts';
import { Rules } from './expected.ts';
import { hiddenOf } from './hidden.ts';
import { createLeveller } from './leveller.ts';
import { fill, states, type Filled } from './states.ts';
import { openTwins, type Twins } from './twins.ts';

let twins: Twins;
beforeAll(async () => {
  twins = await openTwins();
  await evaluateDefaultMask(twins);
});
afterAll(() => twins.close());

const ids = Object.keys(states);
const readsApplications = { type: 'management', permissions: ['application:read'], rules: [] } as const;

async function openFilled(): Promise<readonly [Filled, Filled]> {
  const pair = await twins.newPair();
  const [third] = await twins.newPair();
  const filledIn = async (tenantId: string, hidden: Filled['hidden']) => ({
    cast: await openCast(twins, tenantId, readsApplications),
    hidden,
  });
  const one = await filledIn(pair[0], hiddenOf[0]);
  const other = await filledIn(pair[1], hiddenOf[1]);
  await fill(twins, [one, other], await filledIn(third, hiddenOf[0]));
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

const statusIn = ({ status }: Told, usual: number): number => status ?? usual;
const usualOf = { read: 200, patch: 200, create: 201, delete: 204 } as const;

function checkPages(told: Map<string, Told[]>, rules: Rules, { hidden }: Filled): void {
  for (const [name, { permission }] of Object.entries(pages))
    for (const each of told.get(name) ?? []) {
      expect([name, statusIn(each, 200)]).toEqual([name, rules.statusOfAsking(permission)]);
      if (statusIn(each, 200) !== 200) continue;
      const { pagination, data } = each.body as {
        pagination: { total_items: number };
        data: { id: string; data?: Json }[];
      };
      const visible = rules.visible(permission);
      expect([name, pagination.total_items]).toEqual([name, visible.length]);
      expect(Object.fromEntries(data.map((token) => [token.id, token.data]))).toEqual(
        Object.fromEntries(visible.map((id) => [id, rules.dataOf(id, permission, hidden)])),
      );
    }
}

function checkCells(told: Map<string, Told[]>, rules: Rules, { hidden }: Filled): void {
  for (const [name, cell] of Object.entries(cells))
    for (const id of ids)
      for (const [time, each] of (told.get(`${name} ${id}`) ?? []).entries()) {
        const status = rules.statusOf(cell, id);
        // A deletion is executed again for every key.
        const expected = time > 0 && status === 204 ? 404 : status;
        expect([name, id, statusIn(each, usualOf[cell.kind])]).toEqual([name, id, expected]);
        if (cell.kind === 'read' && expected === 200)
          expect([id, (each.body as { data?: Json }).data]).toEqual([
            id,
            rules.dataOf(id, cell.permission, hidden),
          ]);
      }
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
      checkPages(answers, rules, tenant);
      checkCells(answers, rules, tenant);
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
