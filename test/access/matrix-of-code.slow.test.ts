import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Grants } from '@token-vault/access';
import type { Json, LogEntry, Token } from '@token-vault/contracts';
import { type Client, hasFullRuns, resultOf, startCommand, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useMovableClock } from '../world/movable-clock.ts';
import { useReceiver } from '../world/receivers.ts';
import { nowhere } from '../world/proxies.ts';
import { makeSession, openSession, pageOf, signIn } from '../world/sessions.ts';
import { makeTenant, type OtherTenant } from '../world/tenants.ts';
import { functionOf, makeApplicationBy, makeReactorBy, useVault } from '../world/vault.ts';
import type { Asked, Told } from './asked.ts';
import { callers, type Expected } from './callers.ts';
import { cells, pages } from './cells.ts';
import { checkCells, checkPages } from './checks.ts';
import { tellOverHttp } from './entrances.ts';
import { Rules } from './expected.ts';
import { card, hiddenOf } from './hidden.ts';
import { everything, rule } from './rights.ts';
import { proxies, queue, runningEntrances, type RunningCaller } from './running-entrances.ts';
import { fill, fillOther, numberOf, states, type Tenant } from './states.ts';

// The matrix of matrix.slow.test.ts by the entrances that need a running vault.

const [hidden] = hiddenOf;
const clock = useMovableClock();
const receiver = useReceiver(beforeAll);
const vault = useVault({ env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8', ...clock.env } });
const byProxy = proxies(vault, receiver);
const entrances = { ...runningEntrances(vault, receiver), ...queue(vault, receiver), ...byProxy };
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

const kindOf = ({ authorizer, shownAtMost }: Expected): Kind =>
  authorizer ? 'a session' : shownAtMost ? 'a session of the console' : 'an application';
type Kind = 'an application' | 'a session' | 'a session of the console';

/** The callers that have rights. */
const all = Object.entries(callers).flatMap(([caller, { expected }]) =>
  expected ? [{ caller, kind: kindOf(expected), expected }] : [],
);
const applications = all.filter(({ kind }) => kind === 'an application');

const makeApplication = (by: Client, { applicationType: type, permissions, rules }: Expected) =>
  makeApplicationBy(by, { type, permissions, rules });
const makeOpener = (by: Client) =>
  makeApplicationBy(by, { type: 'public', permissions: ['token:create'], rules: [] });

async function makeCaller({ manager }: OtherTenant, expected: Expected): Promise<RunningCaller> {
  const { authorizer, shownAtMost, rules } = expected;
  if (authorizer) {
    const { nonce, key } = await openSession((await makeOpener(manager)).client);
    const by = await makeApplicationBy(manager, withUse(everything));
    await by.client.expect(200, 'POST', '/sessions/authorize', { body: { nonce, rules } });
    await manager.expect(200, 'PUT', by.path, { body: { name: 'authorizer', ...authorizer } });
    return { key };
  }
  const made = await makeApplication(manager, expected);
  return shownAtMost ? { key: '', headers: await signIn(made.client, vault.process().url) } : made;
}

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

/** Callers for whom code runs. It acts for its application, but shows a session of the console no plaintext. */
const invokers: Readonly<Record<Kind, (tenant: OtherTenant) => Promise<Client>>> = {
  'an application': async ({ author }) => author.client,
  async 'a session'({ manager, author }) {
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/' } as const];
    const rules = [rule({ transform: 'reveal', permissions: ['token:use'], conditions })];
    return makeSession((await makeOpener(manager)).client, author.client, { rules });
  },
  'a session of the console': async ({ author }) =>
    pageOf(author.client, await signIn(author.client, vault.process().url)),
};
const kinds = Object.keys(invokers) as Kind[];

const byCode = ['reactor code', 'reactor code from the queue', 'code of a proxy'];
/** Code cannot act for an application of the type management, and a proxy takes no cookie. */
const table = applications
  .filter(({ expected }) => expected.applicationType !== 'management')
  .flatMap(({ caller, expected }, turn) =>
    byCode.flatMap((entrance, index) => {
      const possible = kinds.filter(
        (kind) => entrance !== 'code of a proxy' || kind !== 'a session of the console',
      );
      // One of them in turn.
      const some = hasFullRuns ? possible : possible.slice((turn + index) % possible.length).slice(0, 1);
      return some.map((invoker) => ({ entrance, caller, invoker, expected }));
    }),
  );

describe('each operation on a token of each state', () => {
  it.each(table)(
    'by $entrance as $caller, run for $invoker',
    async ({ entrance, invoker, expected: own }) => {
      const tenant = await makeFilled();
      const at = { manager: tenant.manager, author: { client: await invokers[invoker](tenant) } };
      const expected =
        invoker === 'a session of the console' ? { ...own, shownAtMost: 'mask' as const } : own;
      const caller = await makeApplication(tenant.manager, expected);
      const told = new Map<string, Told[]>();
      const ask = async (asked: Readonly<Record<string, Asked>>) => {
        const answers = await entrances[entrance]?.(at, caller, Object.values(asked));
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

/** Callers that may use what they may read, where the type of their application may use anything. Those of the matrix may use nothing. */
const users = all.map((user) => ({ ...user, expected: usingOf(user) }));

function usingOf({ kind, expected }: (typeof all)[number]): Expected {
  if (expected.authorizer)
    return { ...expected, ...withUse(expected), authorizer: withUse(expected.authorizer) };
  return kind !== 'an application' || expected.applicationType === 'private'
    ? { ...expected, ...withUse(expected) }
    : expected;
}

/** The same rights, and `token:use` wherever there are others. */
function withUse({ permissions, rules }: Grants): Grants {
  const andUse = (those: Grants['permissions']) => (those.length > 0 ? [...those, 'token:use' as const] : []);
  return {
    permissions: andUse(permissions),
    rules: rules.map((each) => ({ ...each, permissions: andUse(each.permissions) })),
  };
}

/** Code asks for an application, and such an application gives a proxy its rights. */
const ofApplications = [...byCode, 'a configured proxy without a key'];
const mayEnter = (entrance: string, { kind, expected }: (typeof users)[number]): boolean =>
  !ofApplications.includes(entrance) || (kind === 'an application' && expected.applicationType === 'private');
/** An application asks code and reactors by one entrance in turn, by all of them with TEST_RUNS=full. */
const uses = users.flatMap((user, turn) => {
  const open = Object.keys(entrances).filter((entrance) => mayEnter(entrance, user));
  const inTurn = open.filter((entrance) => user.kind === 'an application' && !(entrance in byProxy));
  return open
    .filter((entrance) => {
      const index = inTurn.indexOf(entrance);
      return hasFullRuns || index < 0 || index === turn % inTurn.length;
    })
    .map((entrance) => ({ entrance, ...user }));
});

describe('a token of each state is used as its caller may use it', () => {
  let tenant: OtherTenant;
  let echo: string;
  beforeAll(async () => {
    tenant = await makeFilled();
    const settings = { proxy_destinations: `${nowhere} ${new URL(receiver.url).origin}` };
    await tenant.manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'Other', settings } });
    echo = await makeReactorBy(tenant.manager, functionOf('return { raw: args.x };'));
  });

  /** Code and destinations are given plaintext by any rule that grants `token:use`. */
  const outcomeOf = (rules: Rules, id: string) => {
    const asking = rules.statusOfAsking('token:use');
    if (asking !== 200) return { status: asking, raw: undefined };
    if (!states[id]?.isThere) return { status: 400, raw: undefined };
    if (!rules.accessTo(id, 'token:use')) return { status: 403, raw: undefined };
    const { cvc, ...rest } = card(numberOf(id, hidden), hidden.cvc);
    return { status: 200, raw: states[id].hasCvc ? { ...rest, cvc } : rest };
  };

  it.each(uses)('by $entrance as $caller', async ({ entrance, kind, expected }) => {
    const caller = await makeCaller(tenant, expected);
    const asks = ids.map((id): Asked => {
      return { operation: 'react', params: { id: echo }, body: { args: { x: `{{ ${id} }}` } } };
    });
    const told = (await entrances[entrance]?.(tenant, caller, asks)) ?? [];
    const perAsk = told.length / asks.length;
    expect([1, 2]).toContain(perAsk);
    // A proxy takes no cookie.
    const isUnknown = kind === 'a session of the console' && entrance in byProxy;
    const rules = new Rules(isUnknown ? undefined : expected);
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
    const { id } = await makeApplication(tenant.manager, expected);
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
