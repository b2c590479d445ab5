import { randomUUID } from 'node:crypto';
import { decideTokenAccess, type Principal } from '@token-vault/access';
import type { AccessRule, Application, Reactor, Token, TokenPermission } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Receiver, startReceiver } from '../e2e/receiver.ts';
import { makeProxyOf, nowhere } from './proxy-code.ts';

interface Told {
  readonly status: number;
  readonly body: Partial<Token>;
}
interface Ask {
  readonly method: 'retrieve' | 'update';
  readonly body?: object;
}
interface Caller {
  readonly id: string;
  readonly client: Client;
}
type Entrance = (caller: Caller, tokenId: string, asks: readonly Ask[]) => Promise<readonly Told[]>;

const env = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };
const number = cardNumber();
const container = '/pci/high/';
const permissions: TokenPermission[] = ['token:create', 'token:read', 'token:update', 'token:use'];

let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;
let author: Client;
let receiver: Receiver;

const rule = (transform: AccessRule['transform'], of = '/') => [
  { description: 'of the test', priority: 1, container: of, transform, permissions, conditions: undefined },
];
/** The rights of each caller. */
const grants: Readonly<Record<string, Pick<Principal, 'permissions' | 'rules'>>> = {
  'plain permissions': { permissions, rules: [] },
  'a rule that masks': { permissions: [], rules: rule('mask') },
  'a rule that redacts': { permissions: [], rules: rule('redact') },
  'a rule that reveals elsewhere': { permissions: [], rules: rule('reveal', '/open/') },
  'a rule that reveals elsewhere, and plain permissions': { permissions, rules: rule('reveal', '/open/') },
  'only token:update': { permissions: ['token:update'], rules: [] },
  'a rule that reveals': { permissions: [], rules: rule('reveal') },
};

/** Each of these patches would reveal the data if a caller without sight of it could make it. */
const patches: readonly object[] = [
  { mask: '{{ data }}' },
  { search_indexes: ['{{ data.number }}'] },
  { fingerprint_expression: '{{ data.number }}{{ data.expiration_month }}' },
  { deduplicate_token: true },
  { containers: ['/open/'] },
];
const asks: readonly Ask[] = [
  { method: 'retrieve' },
  ...patches.map((body) => ({ method: 'update', body }) as const),
  { method: 'retrieve' },
];

async function makeApplication(body: object): Promise<Caller> {
  const options = { body: { name: 'caller', type: 'private', ...body } };
  const made = await manager.expect<Application>(201, 'POST', '/applications', options);
  return { id: made.body.id, client: manager.withKey(made.body.key ?? '') };
}

async function overHttp(caller: Caller, tokenId: string, ask: Ask, headers = {}): Promise<Told> {
  const method = ask.method === 'retrieve' ? 'GET' : 'PATCH';
  const { status, body } = await caller.client.request<Token>(method, `/tokens/${tokenId}`, {
    headers,
    ...(ask.body && { body: ask.body }),
  });
  return { status, body };
}

/** Code that asks for its application. It encodes its arguments, because expressions in them would be evaluated. */
const codeOf = (all: readonly Ask[]): string =>
  `module.exports = async ({ args: { id, body }, svc }) => {
    const asks = ${JSON.stringify(all)};
    const raw = [];
    for (const { method, body: patch } of asks) raw.push(await svc.tokens[method](id ?? body.id, patch).then(
      (shown) => ({ status: 200, body: shown }),
      (refusal) => ({ status: refusal.status, body: refusal.problem }),
    ));
    return { raw };
  };`;

const makeCode = async (caller: Caller, all: readonly Ask[]): Promise<string> => {
  const body = { name: 'asks', code: codeOf(all), configuration: {}, application: { id: caller.id } };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
};

const entrances: Readonly<Record<string, Entrance>> = {
  async HTTP(caller, tokenId, all) {
    const told: Told[] = [];
    for (const ask of all) told.push(await overHttp(caller, tokenId, ask));
    return told;
  },
  async 'an idempotent replay'(caller, tokenId, all) {
    const told: Told[] = [];
    for (const ask of all) {
      const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
      await overHttp(caller, tokenId, ask, headers);
      told.push(await overHttp(caller, tokenId, ask, headers));
    }
    return told;
  },
  async 'reactor code'(caller, id, all) {
    const path = `/reactors/${await makeCode(caller, all)}/react`;
    const answer = await author.expect<{ raw: Told[] }>(200, 'POST', path, {
      body: { args: { id } },
    });
    return answer.body.raw;
  },
  async 'reactor code from the queue'(caller, id, all) {
    const path = `/reactors/${await makeCode(caller, all)}/react`;
    const body = { args: { id }, callback_url: receiver.url };
    const { headers } = await author.expect(202, 'POST', path, { body });
    const traceId = headers.get('svc-trace-id');
    const find = () => receiver.deliveries.find((one) => one.headers['svc-trace-id'] === traceId);
    const delivery = await waitUntil(find, { timeoutMs: 20_000, what: 'the outcome' });
    return (JSON.parse(delivery.text) as { raw: Told[] }).raw;
  },
  async 'code of a proxy'(caller, id, all) {
    const path = await makeProxyOf(manager, caller.id, codeOf(all));
    return (await author.expect<Told[]>(200, 'POST', path, { body: { id } })).body;
  },
};

const principalOf = (name: string): Principal => ({
  tenant: { id: 'tenant', plan: 'enterprise', settings: {} },
  actor: { kind: 'application', id: 'caller' },
  applicationId: 'caller',
  applicationType: 'private',
  permissions: [],
  rules: [],
  ...grants[name],
});

/** The answer by the rules of access alone: the status, and the card's number as it is shown. */
function expectedOf(name: string, { method }: Ask): { status: number; shown: string | undefined } {
  const decide = (permission: TokenPermission) =>
    decideTokenAccess(principalOf(name), permission, { id: 'id', containers: [container] });
  const read = decide('token:read');
  const does = method === 'retrieve' ? read : decide('token:update');
  const isAllowed = does.isGranted && (method === 'retrieve' || does.transform === 'reveal');
  if (!isAllowed || !read.isGranted) return { status: 403, shown: undefined };
  const shownBy = { reveal: number, mask: `XXXXXXXXXXXX${number.slice(-4)}`, redact: undefined };
  return { status: 200, shown: shownBy[read.transform] };
}

const numberIn = ({ data }: Partial<Token>): unknown => (data as { number?: string } | undefined)?.number;

beforeAll(async () => {
  receiver = await startReceiver();
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, env });
  manager = vault.client();
  const settings = { proxy_destinations: nowhere };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
  ({ client: author } = await makeApplication({ permissions: [], rules: rule('reveal') }));
});
afterAll(async () => {
  await receiver.close();
  await removeDataDirectory(dataDir);
});

const cells = Object.keys(entrances).flatMap((entrance) =>
  Object.keys(grants).map((caller) => ({ entrance, caller })),
);

describe('a token is read and patched as the rights of its caller say', () => {
  it.each(cells)('by $entrance with $caller', async ({ entrance, caller }) => {
    const body = cardToken(number, { id: `card-${randomUUID()}`, containers: [container] });
    const { id } = (await author.expect<Token>(201, 'POST', '/tokens', { body })).body;
    const told = (await entrances[entrance]?.(await makeApplication(grants[caller] ?? {}), id, asks)) ?? [];
    expect(told.map((one) => ({ status: one.status, shown: numberIn(one.body) }))).toEqual(
      asks.map((ask) => expectedOf(caller, ask)),
    );
    for (const [index, ask] of asks.entries()) {
      const { status = 0, body: answer } = told[index] ?? {};
      const { isGranted } = decideTokenAccess(principalOf(caller), 'token:update', {
        id,
        containers: [container],
      });
      if (ask.body && status === 403 && isGranted)
        expect(JSON.stringify(answer)).toContain(Object.keys(ask.body)[0]);
      if (status === 403) expect(JSON.stringify(answer)).not.toContain(number.slice(0, 12));
    }
  });
});
