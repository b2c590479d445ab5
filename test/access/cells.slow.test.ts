import { randomUUID } from 'node:crypto';
import { decideTokenAccess, type Principal } from '@token-vault/access';
import type { AccessRule, Token, TokenPermission } from '@token-vault/contracts';
import { cardNumber, cardToken, type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { useReceiver } from '../world/receivers.ts';
import { type Caller, useVault } from '../world/vault.ts';
import { revealingPatches } from './patches.ts';
import { rule } from './rights.ts';

interface Told {
  readonly status: number;
  readonly body: Partial<Token>;
}
interface Ask {
  readonly method: 'retrieve' | 'update';
  readonly body?: object;
}
type Entrance = (caller: Caller, tokenId: string, asks: readonly Ask[]) => Promise<readonly Told[]>;

const number = cardNumber();
const container = '/pci/high/';
const permissions: TokenPermission[] = ['token:create', 'token:read', 'token:update', 'token:use'];

const receiver = useReceiver(beforeAll);
const vault = useVault();
const { manager, makeApplication } = vault;
let author: Client;

const within = (transform: AccessRule['transform'], container = '/') => [
  rule({ transform, container, permissions }),
];
/** The rights of each caller. */
const grants: Readonly<Record<string, Pick<Principal, 'permissions' | 'rules'>>> = {
  'plain permissions': { permissions, rules: [] },
  'a rule that masks': { permissions: [], rules: within('mask') },
  'a rule that redacts': { permissions: [], rules: within('redact') },
  'a rule that reveals elsewhere': { permissions: [], rules: within('reveal', '/open/') },
  'a rule that reveals elsewhere, and plain permissions': { permissions, rules: within('reveal', '/open/') },
  'only token:update': { permissions: ['token:update'], rules: [] },
  'a rule that reveals': { permissions: [], rules: within('reveal') },
};

const asks: readonly Ask[] = [
  { method: 'retrieve' },
  ...revealingPatches.map((body) => ({ method: 'update', body }) as const),
  { method: 'retrieve' },
];

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

const makeCode = (application: Caller, all: readonly Ask[]): Promise<string> =>
  vault.makeReactor(codeOf(all), { application });

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
  await vault.setTenant({ proxy_destinations: nowhere });
  ({ client: author } = await makeApplication({ permissions: [], rules: within('reveal') }));
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
