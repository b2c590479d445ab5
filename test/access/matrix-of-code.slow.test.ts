import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Grants } from '@token-vault/access';
import type { Json, LogEntry, Token } from '@token-vault/contracts';
import { type Client, hasFullRuns, resultOf, startCommand, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useMovableClock } from '../world/movable-clock.ts';
import { useReceiver } from '../world/receivers.ts';
import { makeTenant, type OtherTenant } from '../world/tenants.ts';
import { type Caller, functionOf, makeApplicationBy, makeReactorBy, useVault } from '../world/vault.ts';
import type { Asked, Told } from './asked.ts';
import { callers, type Expected } from './callers.ts';
import { cells, pages } from './cells.ts';
import { checkCells, checkPages } from './checks.ts';
import { tellOverHttp } from './entrances.ts';
import { Rules } from './expected.ts';
import { card, hiddenOf } from './hidden.ts';
import { runningEntrances } from './running-entrances.ts';
import { fill, fillOther, numberOf, states, type Tenant } from './states.ts';

// The matrix of matrix.slow.test.ts by the entrances that need a running vault.

const [hidden] = hiddenOf;
const clock = useMovableClock();
const receiver = useReceiver(beforeAll);
const vault = useVault({ env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8', ...clock.env } });
const entrances = runningEntrances(vault, receiver);
const ids = Object.keys(states);
let other: OtherTenant;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'matrix-'));
  await resultOf(folder, 'transfer', 'keygen', path.join(folder, 'key'));
  other = await makeTenant(vault);
  await fillOther(toFill(other));
});
afterAll(() => rm(folder, { recursive: true }));

const toFill = ({ author }: OtherTenant): Tenant => ({
  hidden,
  async ask(asked) {
    const { status = 500, body } = await tellOverHttp(vault.process().url, author.key, asked);
    if (status >= 300) throw new Error(`${asked.operation}: ${JSON.stringify(body)}`);
    return (body ?? {}) as Record<string, Json>;
  },
});

const movedClock = {
  now: () => new Date(clock.now()),
  async advance(ms: number): Promise<void> {
    const { client } = other.author;
    const to = clock.now() + ms;
    clock.moveTo(to);
    const body = { type: 'token', data: 'x' };
    const hasMoved = async () => {
      const made = await client.expect<Token>(201, 'POST', '/tokens', { body });
      return Date.parse(made.body.created_at ?? '') >= to;
    };
    await waitUntil(hasMoved, { what: 'the time of the vault' });
  },
};

/** A tenant with a token of each state. */
async function makeFilled(): Promise<OtherTenant> {
  const tenant = await makeTenant(vault);
  await fill(movedClock, [toFill(tenant)]);
  return tenant;
}

/** The callers that are applications. */
const applications = Object.entries(callers).flatMap(([name, { expected }]) =>
  expected && expected.authorizer === undefined && expected.shownAtMost === undefined
    ? [{ caller: name, expected }]
    : [],
);

const makeCaller = (by: Client, { applicationType: type, permissions, rules }: Expected): Promise<Caller> =>
  makeApplicationBy(by, { type, permissions, rules });

const aboutEach = (some: readonly string[]): Record<string, Asked> =>
  Object.fromEntries(
    some.flatMap((id) =>
      Object.entries(cells).map(([name, cell]) => [`${name} ${id}`, cell.ask(id)] as const),
    ),
  );
/** The requests of one run are sent one after the other. A run may take 10 s, so there are three. */
const requests: readonly Readonly<Record<string, Asked>>[] = [
  Object.fromEntries(Object.entries(pages).map(([name, { asked }]) => [name, asked])),
  aboutEach(ids.slice(0, 6)),
  aboutEach(ids.slice(6)),
];

const byCode = ['reactor code', 'reactor code from the queue', 'code of a proxy'];
/** Code cannot act for an application of the type management. */
const table = applications
  .filter(({ expected }) => expected.applicationType !== 'management')
  .flatMap((each) => byCode.map((entrance) => ({ entrance, ...each })));

describe('each operation on a token of each state', () => {
  it.each(table)(
    'by $entrance as $caller',
    async ({ entrance, expected }) => {
      const tenant = await makeFilled();
      const caller = await makeCaller(tenant.manager, expected);
      const told = new Map<string, Told[]>();
      const ask = async (asked: Readonly<Record<string, Asked>>) => {
        const answers = await entrances[entrance]?.(tenant, caller, Object.values(asked));
        for (const [index, name] of Object.keys(asked).entries())
          told.set(name, answers?.slice(index, index + 1) ?? []);
      };
      for (const asked of requests) await ask(asked);
      expect([...told.values()].filter(({ length }) => length !== 1)).toEqual([]);
      const rules = new Rules(expected);
      checkPages(told, rules, hidden);
      checkCells(told, rules, hidden);
      if (!ids.some((id) => rules.seesPlaintextOf(id)))
        expect(JSON.stringify([...told])).not.toContain(hidden.number);
    },
    180_000,
  );
});

/** Private applications that may use what they may read. Those of the matrix may use nothing. */
const users = applications
  .filter(({ expected }) => expected.applicationType === 'private')
  .map(({ caller, expected }) => ({ caller, expected: { ...expected, ...withUse(expected) } }));

/** The same rights, and `token:use` wherever there are others. */
function withUse({ permissions, rules }: Grants): Grants {
  const andUse = (those: Grants['permissions']) => (those.length > 0 ? [...those, 'token:use' as const] : []);
  return {
    permissions: andUse(permissions),
    rules: rules.map((each) => ({ ...each, permissions: andUse(each.permissions) })),
  };
}

/** Each caller by one of the entrances in turn; by all of them with TEST_RUNS=full. */
const uses = Object.keys(entrances).flatMap((entrance, index) =>
  users
    .filter((_user, turn) => hasFullRuns || turn % Object.keys(entrances).length === index)
    .map((user) => ({ entrance, ...user })),
);

describe('code is given a token of each state as its caller may use it', () => {
  let tenant: OtherTenant;
  let echo: string;
  beforeAll(async () => {
    tenant = await makeFilled();
    echo = await makeReactorBy(tenant.manager, functionOf('return { raw: args.x };'));
  });

  /** Code is given plaintext by any rule that grants `token:use`. */
  const outcomeOf = (rules: Rules, id: string) => {
    if (!states[id]?.isThere) return { status: 400, raw: undefined };
    if (!rules.accessTo(id, 'token:use')) return { status: 403, raw: undefined };
    const { cvc, ...rest } = card(numberOf(id, hidden), hidden.cvc);
    return { status: 200, raw: states[id].hasCvc ? { ...rest, cvc } : rest };
  };

  it.each(uses)('by $entrance as $caller', async ({ entrance, expected }) => {
    const caller = await makeCaller(tenant.manager, expected);
    const asks = ids.map((id): Asked => {
      return { operation: 'react', params: { id: echo }, body: { args: { x: `{{ ${id} }}` } } };
    });
    const told = (await entrances[entrance]?.(tenant, caller, asks)) ?? [];
    const perAsk = told.length / asks.length;
    expect([1, 2]).toContain(perAsk);
    const rules = new Rules(expected);
    for (const [index, { status = 200, body }] of told.entries()) {
      const id = ids[Math.floor(index / perAsk)] ?? '';
      const { raw } = body as { raw?: Json };
      expect({ id, status, raw }).toEqual({ id, ...outcomeOf(rules, id) });
    }
  });
});

it('the command line exports, for each application, the tokens that its rules reveal', async () => {
  const tenant = await makeFilled();
  for (const { caller, expected } of applications) {
    const { id } = await makeCaller(tenant.manager, expected);
    const rules = new Rules(expected);
    const revealed = rules
      .visible('token:read')
      .filter((token) => rules.accessTo(token, 'token:read') === 'reveal');
    const to = path.join(folder, `tokens of ${caller}`);
    const flags = ['--recipient', path.join(folder, 'key.pub'), '--application', id, '--to', to];
    const command = startCommand(vault.process().dataDir, ['export', tenant.id, ...flags], clock.env);
    const { code } = await command.ended;
    const { data } = (
      await tenant.manager.expect<{ data: LogEntry[] }>(200, 'GET', `/logs?actor_id=${id}&operation=export`)
    ).body;
    const exported = data.flatMap(({ entity_id: entity }) => entity ?? []).sort();
    expect({ caller, code, exported }).toEqual({
      caller,
      code: revealed.length > 0 ? 0 : 1,
      exported: revealed.sort(),
    });
  }
}, 180_000);
