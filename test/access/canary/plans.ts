import { randomUUID } from 'node:crypto';
import type { Invocation, Json, OperationId } from '@token-vault/contracts';
import { cardNumber, waitUntil, type Client } from '@token-vault/test-support';
import type { Draft } from './places.ts';
import type { CallerName, World } from './world.ts';

type Ready = Partial<Pick<Draft, 'params' | 'query' | 'headers'>> & { readonly body?: Json };

/** A request of the operation that succeeds. */
export interface Plan {
  readonly by: CallerName;
  ready(world: World): Promise<Ready> | Ready;
  /** The name of the method in `req.svc`. */
  readonly svc?: string;
  /** The arguments of the method in `req.svc`. */
  readonly values?: (draft: Draft) => readonly Json[];
  /** The form of a canary at places where a bare number would be refused. */
  readonly written?: Readonly<Record<string, (number: string) => string>>;
}

const rule = { description: 'd', priority: 1, container: '/', transform: 'mask' };
const tokenRules = [{ ...rule, permissions: ['token:read'] }];
const sessionRules = [
  {
    description: 'd',
    priority: 1,
    conditions: [{ attribute: 'id', operator: 'equals', value: 'some-id' }],
    transform: 'mask',
    permissions: ['token:read'],
  },
];
const code = 'module.exports = async () => ({ raw: 1 });';
const reactor = { name: 'r', code, configuration: { 'some-key': 'v' } };
const proxy = {
  name: 'p',
  destination: 'https://destination.invalid/v1',
  configuration: { 'some-key': 'v' },
};
const path = (number: string): string => `/card-${number}/`;
const comment = (number: string): string => `${code} // ${number}`;
const uuidOf = (text: string): string =>
  `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-0000-000000000000`;
const expressionOf = (number: string): string => `{{ data.number | append: "${number}" }}`;

const managerOf = (world: World): Client => world.clientWithoutKey.withKey(world.keys.management ?? '');
const revealerOf = (world: World): Client => world.clientWithoutKey.withKey(world.keys.revealing ?? '');
const idOf = async (client: Client, at: string, body: object): Promise<string> =>
  (await client.expect<{ id: string }>(201, 'POST', at, { body })).body.id;
const freshToken = (world: World) => idOf(revealerOf(world), '/tokens', { type: 'token', data: 'plain' });

/** A running vault destroys the keys of a deleted token within moments. */
async function erasedToken(world: World): Promise<string> {
  const id = await freshToken(world);
  await revealerOf(world).expect(204, 'DELETE', `/tokens/${id}`);
  const isErased = async () => {
    const { status } = await managerOf(world).request('GET', `/tokens/${id}/erasure-certificate`);
    return status === 200;
  };
  await waitUntil(isErased, { what: 'the keys of a deleted token' });
  return id;
}

const lastTransactions = new WeakMap<Plan, string>();
/**
 * An application may have 20 open transactions. A refused request may have left the last one of the plan open, so it
 * is ended.
 */
async function freshTransaction(world: World, plan: Plan): Promise<string> {
  const client = revealerOf(world);
  const last = lastTransactions.get(plan);
  if (last !== undefined) await client.request('POST', `/transactions/${last}/rollback`);
  const id = await idOf(client, '/transactions', {});
  lastTransactions.set(plan, id);
  return id;
}

const freshApplication = async (world: World): Promise<string> =>
  (await world.make({ name: 'a', type: 'private', permissions: ['token:read'] })).id;
async function onKey(world: World): Promise<Ready> {
  const id = await freshApplication(world);
  return { params: { id, key_id: await idOf(managerOf(world), `/applications/${id}/keys`, {}) } };
}

/** A proxy that may have keys of its own. */
async function onProxy(world: World): Promise<{ readonly params: { readonly id: string } }> {
  const application = { id: await freshApplication(world) };
  return { params: { id: await idOf(managerOf(world), '/proxies', { ...proxy, application }) } };
}
async function onProxyKey(world: World): Promise<Ready> {
  const { id } = (await onProxy(world)).params;
  return { params: { id, key_id: await idOf(managerOf(world), `/proxies/${id}/keys`, {}) } };
}
const receivers = new WeakMap<World, Promise<string>>();
/** A proxy to the receiver. One serves all requests. */
async function onReceiver(world: World): Promise<Ready> {
  const made =
    receivers.get(world) ?? idOf(managerOf(world), '/proxies', { name: 'p', destination: world.receiverUrl });
  receivers.set(world, made);
  return { params: { id: await made, path: 'v1' } };
}
const writtenProxy = {
  'body.request.code': comment,
  'body.response.code': comment,
  'body.destination': (number: string) => `https://destination.invalid/${number}`,
  'body.destinations[]': (number: string) => `https://card-${number}.invalid`,
};

const token = () => ({ type: 'card', data: { number: cardNumber('5'), cvc: '123' } });
const writtenToken = {
  'body.containers[]': path,
  'body.mask': expressionOf,
  'body.search_indexes[]': expressionOf,
  'body.fingerprint_expression': expressionOf,
};
const onToken = async (world: World) => ({ params: { id: world.ids.token } });
const onVictim = async (world: World) => ({ params: { id: world.ids.victim } });
const onReactor = async (world: World) => ({ params: { id: world.ids.reactor } });
const undeliveredRuns = new WeakMap<World, Promise<string>>();
/** A run whose result cannot be delivered. One serves all requests: it can be delivered again any number of times. */
async function undelivered(world: World) {
  const run = undeliveredRuns.get(world) ?? startUndelivered(world);
  undeliveredRuns.set(world, run);
  return { params: { invocation_id: await run } };
}

async function startUndelivered(world: World): Promise<string> {
  const body = { args: { calls: '[]' }, callback_url: 'https://hooks.invalid/' };
  const at = `/reactors/${world.ids.reactor}/react`;
  const { headers } = await revealerOf(world).expect(202, 'POST', at, { body });
  const id = headers.get('svc-invocation-id') ?? '';
  const isTried = async () => {
    const { body: run } = await managerOf(world).expect<Invocation>(200, 'GET', `/invocations/${id}`);
    return (run.delivery?.attempts.length ?? 0) > 0;
  };
  // Other operations send their runs and deliveries at the same time.
  await waitUntil(isTried, { what: 'the first delivery', timeoutMs: 120_000 });
  return id;
}
const first = ({ params, body }: Draft): Json[] =>
  [params['id'] ?? null, body ?? null].filter((value) => value !== null);

export const plans: Readonly<Record<OperationId, Plan>> = {
  createToken: {
    by: 'revealing',
    ready: () => ({
      body: { ...token(), mask: '{{ data.number | last4 }}', search_indexes: ['{{ data.number }}'] },
    }),
    svc: 'tokens.create',
    values: ({ body }) => [body ?? null],
    written: writtenToken,
  },
  searchTokens: {
    by: 'revealing',
    ready: () => ({ body: { query: 'type:card' } }),
    svc: 'tokens.search',
    values: ({ body }) => [body ?? null],
    written: { 'body.query': (number) => `data:${number} OR metadata.card:"${number}"` },
  },
  listTokens: {
    by: 'revealing',
    ready: () => ({ query: { size: '1' } }),
    svc: 'tokens.list',
    values: ({ query }) => [{ ...query }],
  },
  getToken: { by: 'revealing', ready: onToken, svc: 'tokens.retrieve', values: first },
  updateToken: {
    by: 'revealing',
    ready: async (world) => ({ ...(await onToken(world)), body: { metadata: { a: 'b' } } }),
    svc: 'tokens.update',
    values: first,
    written: writtenToken,
  },
  deleteToken: {
    by: 'revealing',
    ready: async (world) => ({ params: { id: await freshToken(world) } }),
    svc: 'tokens.delete',
    values: first,
  },
  createTokens: {
    by: 'revealing',
    ready: () => ({ body: { tokens: [token()] } }),
    svc: 'tokens.createMany',
    values: ({ body }) => [body ?? null],
  },
  deleteTokens: {
    by: 'revealing',
    ready: async (world) => ({ body: { ids: [await freshToken(world)] } }),
    svc: 'tokens.deleteMany',
    values: ({ body }) => [body ?? null],
  },
  detokenize: {
    by: 'revealing',
    ready: (world) => ({ body: { text: `{{ ${world.ids.token} }}` } }),
    svc: 'detokenize',
    values: ({ body }) => [body ?? null],
  },
  tokenize: {
    by: 'revealing',
    ready: () => ({ body: { card: token(), bare: 'plain' } }),
    svc: 'tokenize',
    values: ({ body }) => [body ?? null],
  },

  createApplication: {
    by: 'management',
    ready: () => ({ body: { name: 'a', type: 'private', permissions: ['token:read'], rules: tokenRules } }),
    written: { 'body.rules[].container': path },
  },
  listApplications: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getApplicationByKey: { by: 'management', ready: () => ({}) },
  getApplication: { by: 'management', ready: onVictim, written: { 'path.id': uuidOf } },
  updateApplication: {
    by: 'management',
    ready: async (world) => ({ ...(await onVictim(world)), body: { name: 'a', rules: tokenRules } }),
    written: { 'body.rules[].container': path, 'path.id': uuidOf },
  },
  regenerateApplicationKey: { by: 'management', ready: onVictim, written: { 'path.id': uuidOf } },
  createApplicationKey: {
    by: 'management',
    ready: async (world) => ({ params: { id: await freshApplication(world) }, body: {} }),
    written: { 'path.id': uuidOf },
  },
  listApplicationKeys: { by: 'management', ready: onVictim, written: { 'path.id': uuidOf } },
  getApplicationKey: {
    by: 'management',
    ready: onKey,
    written: { 'path.id': uuidOf, 'path.key_id': uuidOf },
  },
  deleteApplicationKey: {
    by: 'management',
    ready: onKey,
    written: { 'path.id': uuidOf, 'path.key_id': uuidOf },
  },
  deleteApplication: {
    by: 'management',
    ready: async (world) => ({
      params: { id: (await world.make({ name: 'a', type: 'private', permissions: ['token:read'] })).id },
    }),
    written: { 'path.id': uuidOf },
  },
  listPermissions: { by: 'management', ready: () => ({}) },
  createSession: { by: 'public', ready: () => ({}) },
  authorizeSession: {
    by: 'revealing',
    async ready(world) {
      const opener = world.clientWithoutKey.withKey(world.keys.public ?? '');
      const { nonce } = (await opener.expect<{ nonce: string }>(201, 'POST', '/sessions')).body;
      return { body: { nonce, rules: sessionRules } };
    },
    written: { 'body.nonce': (number) => `${randomUUID()}.${number.padEnd(32, 'x')}` },
  },

  createReactor: {
    by: 'management',
    ready: () => ({ body: reactor }),
    written: { 'body.code': comment },
  },
  listReactors: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getReactor: { by: 'management', ready: onReactor, written: { 'path.id': uuidOf } },
  updateReactor: {
    by: 'management',
    ready: async (world) => ({
      params: { id: await idOf(managerOf(world), '/reactors', reactor) },
      body: reactor,
    }),
    written: { 'body.code': comment, 'path.id': uuidOf },
  },
  patchReactor: {
    by: 'management',
    ready: async (world) => ({
      params: { id: await idOf(managerOf(world), '/reactors', reactor) },
      body: { name: 'r' },
    }),
    written: { 'body.code': comment, 'path.id': uuidOf },
  },
  deleteReactor: {
    by: 'management',
    ready: async (world) => ({ params: { id: await idOf(managerOf(world), '/reactors', reactor) } }),
    written: { 'path.id': uuidOf },
  },
  react: {
    by: 'revealing',
    ready: async (world) => ({ ...(await onReactor(world)), body: { args: { calls: '[]' } } }),
    svc: 'reactors.react',
    values: first,
    written: {
      'path.id': uuidOf,
      'body.args.*': (number) => `<< ${number} }}`.replace('<<', '{{'),
      'body.callback_url': (number) => `https://hooks.invalid/${number}?card=${number}`,
      'body.callbackUrl': (number) => `https://hooks.invalid/${number}?card=${number}`,
    },
  },
  listInvocations: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getInvocation: { by: 'management', ready: undelivered, written: { 'path.invocation_id': uuidOf } },
  redeliverInvocation: { by: 'management', ready: undelivered, written: { 'path.invocation_id': uuidOf } },

  createProxy: { by: 'management', ready: () => ({ body: proxy }), written: writtenProxy },
  listProxies: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getProxy: { by: 'management', ready: onProxy, written: { 'path.id': uuidOf } },
  updateProxy: {
    by: 'management',
    ready: async (world) => ({ ...(await onProxy(world)), body: proxy }),
    written: { ...writtenProxy, 'path.id': uuidOf },
  },
  patchProxy: {
    by: 'management',
    ready: async (world) => ({ ...(await onProxy(world)), body: { name: 'p' } }),
    written: { ...writtenProxy, 'path.id': uuidOf },
  },
  deleteProxy: { by: 'management', ready: onProxy, written: { 'path.id': uuidOf } },
  createProxyKey: {
    by: 'management',
    ready: async (world) => ({ ...(await onProxy(world)), body: {} }),
    written: { 'path.id': uuidOf },
  },
  deleteProxyKey: {
    by: 'management',
    ready: onProxyKey,
    written: { 'path.id': uuidOf, 'path.key_id': uuidOf },
  },
  invokeProxy: { by: 'revealing', ready: onReceiver, written: { 'path.id': uuidOf } },
  proxy: {
    by: 'revealing',
    ready: (world) => ({ headers: { 'svc-proxy-url': world.receiverUrl } }),
  },

  listLogs: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  summarizeLogs: { by: 'management', ready: () => ({ query: { interval: 'day', group_by: 'actor' } }) },
  listEntityTypes: { by: 'management', ready: () => ({}) },
  createTransaction: { by: 'private', ready: () => ({}) },
  commitTransaction: {
    by: 'revealing',
    async ready(world) {
      return { params: { id: await freshTransaction(world, this) } };
    },
    written: { 'path.id': uuidOf },
  },
  rollbackTransaction: {
    by: 'revealing',
    async ready(world) {
      return { params: { id: await freshTransaction(world, this) } };
    },
    written: { 'path.id': uuidOf },
  },
  getTenant: { by: 'management', ready: () => ({}) },
  updateTenant: {
    by: 'management',
    // The settings that the other operations need.
    ready: ({ receiverUrl }) => ({
      body: {
        name: 'tenant',
        settings: { data_misses_per_minute: '0', proxy_destinations: new URL(receiverUrl).origin },
      },
    }),
  },
  // A management application could delete the tenant and end the test: see the journey.
  deleteTenant: { by: 'revealing', ready: () => ({}) },
  getWebhookSecret: { by: 'management', ready: () => ({}) },
  rotateWebhookSecret: { by: 'management', ready: () => ({}) },
  getUsageReport: { by: 'management', ready: () => ({}) },
  openConsoleSession: { by: 'management', ready: () => ({}) },
  getConsoleSession: { by: 'management', ready: () => ({}) },
  endConsoleSession: { by: 'management', ready: () => ({}) },
  getConsoleOverview: { by: 'management', ready: () => ({}) },
  getAccessMatrix: { by: 'management', ready: () => ({}), written: { 'query.container': path } },
  explainAccess: {
    by: 'management',
    ready: async (world) => ({
      params: { id: await freshApplication(world) },
      query: { token_id: world.ids.token },
    }),
    written: { 'path.id': uuidOf },
  },
  verifyLog: { by: 'management', ready: () => ({}) },
  getErasureCertificate: {
    by: 'management',
    ready: async (world) => ({ params: { id: await erasedToken(world) } }),
  },
  getVaultOperations: { by: 'management', ready: () => ({}) },
  commandProjection: {
    by: 'management',
    ready: () => ({ params: { name: 'alerts' }, body: { action: 'rebuild' } }),
  },
};
