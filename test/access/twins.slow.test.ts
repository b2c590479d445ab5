import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AuditCheckpointSigned, type Json, type Token } from '@token-vault/contracts';
import { type Client, resultOf, runCommand, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { useReceiver } from '../world/receivers.ts';
import { type Caller, makeApplicationBy, makeReactorBy, useVault } from '../world/vault.ts';
import { tellOverHttp, type Asked } from './entrances.ts';
import { card, hiddenOf, type Hidden } from './hidden.ts';
import { createLeveller } from './leveller.ts';
import { revealingPatches } from './patches.ts';
import { permissions, rule, type Rights } from './rights.ts';

/** Two tenants of one running vault that differ in hidden data only. */
interface Twin {
  readonly tenantId: string;
  readonly manager: Client;
  readonly author: Client;
  readonly hidden: Hidden;
}
type Entrance = (twin: Twin, caller: Caller, asks: readonly Asked[]) => Promise<readonly unknown[]>;

const container = '/a/';
const [guessed] = hiddenOf;

const receiver = useReceiver(beforeAll);
const vault = useVault();
let folder: string;
let twins: readonly Twin[];

const use = rule({ container: '/elsewhere/', priority: 8, transform: 'reveal', permissions: ['token:use'] });
const all = [...permissions];
/** No caller sees a token of the container in plaintext. */
const callers: Readonly<Record<string, Rights>> = {
  'plain permissions': { permissions: all, rules: [use] },
  'a rule that masks': { permissions: [], rules: [rule({ container: '/' }), use] },
  'a rule that redacts': { permissions: [], rules: [rule({ container: '/', transform: 'redact' }), use] },
  'a rule that reveals elsewhere': {
    permissions: all,
    rules: [rule({ container: '/open/', transform: 'reveal' }), use],
  },
};

async function makeTwin(hidden: Hidden): Promise<Twin> {
  const output = await resultOf(vault.process().dataDir, 'tenants', 'create', 'Twin', '--plan', 'enterprise');
  const key = /key_mgt_\w+/.exec(output)?.[0] ?? '';
  const manager = vault.manager.withKey(key);
  const settings = { proxy_destinations: nowhere };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'Twin', settings } });
  const rights = [rule({ container: '/', transform: 'reveal', permissions: [...all, 'token:use'] })];
  const author = await makeApplicationBy(manager, { permissions: [], rules: rights });
  const { body } = await manager.expect<{ id: string }>(200, 'GET', '/tenants/self');
  return { tenantId: body.id, manager, author: author.client, hidden };
}

/** Makes a token of each state, with equal ids in both twins. */
async function fill({ author, hidden }: Twin, cell: string): Promise<void> {
  const create = (id: string, more: object = {}, headers: Record<string, string> = {}) =>
    author.expect<Token>(201, 'POST', '/tokens', {
      headers,
      body: {
        id: `${id}-${cell}`,
        type: 'card',
        data: card(hidden.number, hidden.cvc),
        containers: [container],
        ...more,
      },
    });
  for (const id of ['live', 'deleted', 'enlisted']) await create(id);
  await author.expect(204, 'DELETE', `/tokens/deleted-${cell}`);
  const opened = await author.expect<{ id: string }>(201, 'POST', '/transactions');
  const headers = { 'SVC-TRANSACTION-ID': opened.body.id };
  await create('uncommitted', {}, headers);
  await author.expect(200, 'PATCH', `/tokens/enlisted-${cell}`, { headers, body: { metadata: { k: 'v' } } });
}

const states = ['live', 'enlisted', 'uncommitted', 'deleted', 'never'];

function asksOf(cell: string, echo: string): Asked[] {
  const search = (query: string): Asked => ({ operation: 'searchTokens', body: { query, size: 5 } });
  const create = (body: object): Asked => ({
    operation: 'createToken',
    body: { type: 'card', data: { number: guessed.number }, containers: [container], ...body },
  });
  const use = (id: string, expression: string): Asked => ({
    operation: 'react',
    params: { id: echo },
    body: { args: { x: expression.replace('ID', id) } },
  });
  const aboutEach = states.flatMap((state): Asked[] => {
    const params = { id: `${state}-${cell}` };
    return [
      { operation: 'getToken', params },
      ...revealingPatches.map((body): Asked => ({ operation: 'updateToken', params, body })),
      use(params.id, '{{ ID }}'),
      use(params.id, "{{ token: ID | json: '$.data.number' }}"),
    ];
  });
  return [
    { operation: 'listTokens', query: { size: '5' } },
    search('type:card'),
    search(`data:${guessed.number}`),
    search(`NOT data:${guessed.number}`),
    ...aboutEach,
    create({ id: `live-${cell}` }),
    create({ deduplicate_token: true }),
    { operation: 'tokenize', body: [{ type: 'token', data: guessed.number, containers: [container] }] },
    { operation: 'detokenize', body: states.map((state) => `{{ ${state}-${cell} }}`) },
    { operation: 'detokenize', body: states.map((state) => `{{ token: ${state}-${cell} }}`) },
    {
      operation: 'createTokens',
      body: { tokens: [create({}).body, create({ deduplicate_token: true }).body] },
    },
    {
      operation: 'deleteTokens',
      body: { ids: ['uncommitted', 'deleted', 'never'].map((state) => `${state}-${cell}`) },
    },
    { operation: 'deleteToken', params: { id: `live-${cell}` } },
    { operation: 'deleteToken', params: { id: `enlisted-${cell}` } },
  ];
}

const methods: Readonly<Partial<Record<Asked['operation'], string>>> = {
  getToken: 'tokens.retrieve',
  listTokens: 'tokens.list',
  searchTokens: 'tokens.search',
  createToken: 'tokens.create',
  createTokens: 'tokens.createMany',
  deleteTokens: 'tokens.deleteMany',
  detokenize: 'detokenize',
  updateToken: 'tokens.update',
  deleteToken: 'tokens.delete',
  tokenize: 'tokenize',
  react: 'reactors.react',
};

/** Code that asks for its application. It encodes its arguments, because expressions in them would be evaluated. */
function codeOf(asks: readonly Asked[]): string {
  const calls = asks.map(({ operation, params, query, body }) => {
    const { id } = (params ?? {}) as { id?: string };
    return { method: methods[operation], args: [id, query, body].filter((each) => each !== undefined) };
  });
  return `{
    const raw = [];
    for (const { method, args } of ${JSON.stringify(calls)}) {
      const steps = method.split('.');
      const name = steps.pop();
      const of = steps.reduce((object, step) => object[step], req.svc);
      raw.push(await of[name](...args).then(
        (body) => ({ status: 'ok', body }),
        ({ status, problem, message, headers }) => ({ status, problem, message, headers }),
      ));
    }
    return { raw };
  }`;
}

const makeCode = ({ manager }: Twin, application: Caller, asks: readonly Asked[]): Promise<string> =>
  makeReactorBy(manager, `module.exports = async (req) => ${codeOf(asks)}`, { application });

const entrances: Readonly<Record<string, Entrance>> = {
  async HTTP(_twin, { key }, asks) {
    const told: unknown[] = [];
    for (const asked of asks) told.push(await tellOverHttp(vault.process().url, key, asked));
    return told;
  },
  async 'an idempotent replay'(_twin, { key }, asks) {
    const told: unknown[] = [];
    for (const asked of asks) {
      const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
      told.push(await tellOverHttp(vault.process().url, key, asked, headers));
      told.push(await tellOverHttp(vault.process().url, key, asked, headers));
    }
    return told;
  },
  async 'reactor code'(twin, caller, asks) {
    const id = await makeCode(twin, caller, asks);
    const answer = await twin.author.expect<{ raw: Json[] }>(200, 'POST', `/reactors/${id}/react`, {
      body: {},
    });
    return answer.body.raw;
  },
  async 'reactor code from the queue'(twin, caller, asks) {
    const id = await makeCode(twin, caller, asks);
    const traceId = randomUUID();
    // As long as a busy machine needs.
    const body = { callback_url: receiver.url, timeout_ms: 60_000 };
    const headers = { 'SVC-TRACE-ID': traceId };
    await twin.author.expect(202, 'POST', `/reactors/${id}/react`, { body, headers });
    const find = () => receiver.deliveries.find((one) => one.headers['svc-trace-id'] === traceId);
    const delivery = await waitUntil(find, { timeoutMs: 75_000, what: 'the outcome' });
    return (JSON.parse(delivery.text) as { raw: Json[] }).raw;
  },
  async 'code of a proxy'(twin, caller, asks) {
    const code = `module.exports = async (req) => ${codeOf(asks)}`;
    const path = await makeProxyOf(twin.manager, caller.id, code);
    return (await twin.author.expect<Json[]>(200, 'POST', path, { body: {} })).body;
  },
};

const time = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;
const withoutTimes = (told: unknown): unknown => JSON.parse(JSON.stringify(told).replaceAll(time, '<time>'));

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'twins-'));
  twins = [await makeTwin(hiddenOf[0]), await makeTwin(hiddenOf[1])];
  await resultOf(vault.process().dataDir, 'transfer', 'keygen', path.join(folder, 'key'));
}, 180_000);
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

const cells = Object.keys(entrances).flatMap((entrance) =>
  Object.keys(callers).map((caller, index) => ({ entrance, caller, cell: `${entrance.length}-${index}` })),
);

/** The answers of both twins are equal and hold no hidden data, except a guess that the caller sent itself. */
function expectAlike(told: readonly unknown[]): void {
  const [one, other] = told.map((each) => createLeveller()(withoutTimes(each)));
  expect(other).toEqual(one);
  expect(JSON.stringify(told[1])).not.toContain(hiddenOf[1].number);
}

describe('two tenants that differ in hidden data give a caller the same answers', () => {
  it.each(cells)(
    'by $entrance with $caller',
    async ({ entrance, caller, cell }) => {
      const told = await Promise.all(
        twins.map(async (twin) => {
          await fill(twin, cell);
          const made = await makeApplicationBy(
            twin.manager,
            callers[caller] ?? { permissions: [], rules: [] },
          );
          const echo = await makeReactorBy(
            twin.manager,
            'module.exports = async (req) => ({ raw: req.args })',
          );
          return (await entrances[entrance]?.(twin, made, asksOf(cell, echo))) ?? [];
        }),
      );
      expect(told[0]?.length).toBeGreaterThan(40);
      expectAlike(told);
    },
    120_000,
  );

  it.each(['a rule that masks', 'a rule that reveals elsewhere'])(
    'by the command line that exports, with %s',
    async (caller) => {
      const told = await Promise.all(
        twins.map(async (twin) => {
          const { id } = await makeApplicationBy(
            twin.manager,
            callers[caller] ?? { permissions: [], rules: [] },
          );
          const to = path.join(folder, randomUUID());
          const flags = ['--recipient', path.join(folder, 'key.pub'), '--application', id, '--to', to];
          const ended = await runCommand(vault.process().dataDir, ['export', twin.tenantId, ...flags]);
          return JSON.parse(JSON.stringify(ended).replaceAll(to, '<file>')) as unknown;
        }),
      );
      expectAlike(told);
    },
    120_000,
  );

  it('by the command line that exports the log', async () => {
    const told = await Promise.all(
      twins.map(({ tenantId }) => resultOf(vault.process().dataDir, 'audit', 'export', '--tenant', tenantId)),
    );
    // The hidden data of the other twin is in the code that guesses it.
    expect(told[1]?.includes(hiddenOf[1].number)).toBe(false);
    expect(countsOf(told[1] ?? '')).toEqual(countsOf(told[0] ?? ''));
  }, 120_000);
});

/** The number of events of each type, except of checkpoints, which the clock makes. */
function countsOf(exported: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const line of exported.trim().split('\n')) {
    const { type } = JSON.parse(line) as { type?: string };
    if (type !== undefined && type !== AuditCheckpointSigned.type) counts[type] = (counts[type] ?? 0) + 1;
  }
  return counts;
}
