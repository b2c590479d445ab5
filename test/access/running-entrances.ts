import { randomUUID } from 'node:crypto';
import { waitUntil } from '@token-vault/test-support';
import type { Receiver } from '../e2e/receiver.ts';
import { makeProxy, makeProxyOf } from '../world/proxies.ts';
import type { Json } from '@token-vault/contracts';
import type { OtherTenant } from '../world/tenants.ts';
import { type Caller, makeReactorBy, type TestVault } from '../world/vault.ts';
import type { Asked, Told } from './asked.ts';
import { tellOverHttp } from './entrances.ts';

/** A tenant. Its author invokes reactors and proxies whose code asks. */
type Place = Pick<OtherTenant, 'manager'> & { readonly author: Pick<Caller, 'client'> };

/** An application, a session, or a session of the console. */
export interface RunningCaller extends Pick<Caller, 'key'> {
  /** Of the application. Code can act for no session. */
  readonly id?: string;
  /** The cookie of a browser, in place of a key. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A way into a running vault. Gives the answers in the order of the requests, as many to each. */
type RunningEntrance = (at: Place, caller: RunningCaller, asks: readonly Asked[]) => Promise<readonly Told[]>;
type RunningEntrances = Readonly<Record<string, RunningEntrance>>;
type Vault = Pick<TestVault, 'process'>;

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

/**
 * Code that asks for its application. It has no arguments, because expressions in them would be evaluated. A successful answer has no status
 * in code.
 */
function codeOf(asks: readonly Asked[]): string {
  const calls = asks.map(({ operation, params, query, body }) => {
    const { id } = (params ?? {}) as { id?: string };
    return { method: methods[operation], args: [id, query, body].filter((each) => each !== undefined) };
  });
  return `module.exports = async (req) => {
    const raw = [];
    for (const { method, args } of ${JSON.stringify(calls)}) {
      const steps = method.split('.');
      const name = steps.pop();
      const of = steps.reduce((object, step) => object[step], req.svc);
      raw.push(await of[name](...args).then(
        (body) => ({ body }),
        ({ status, problem, message, headers }) => ({ status, body: problem, message, headers }),
      ));
    }
    return { raw };
  };`;
}

const makeCode = ({ manager }: Place, { id = '' }: RunningCaller, asks: readonly Asked[]): Promise<string> =>
  makeReactorBy(manager, codeOf(asks), { application: { id } });

const ask = (vault: Vault, { key, headers }: RunningCaller, asked: Asked, more: object = {}): Promise<Told> =>
  tellOverHttp(vault.process().url, key, asked, { ...headers, ...more });

const outcomeOf = async (receiver: Receiver, traceId: string): Promise<Json> => {
  const find = () => receiver.deliveries.find((one) => one.headers['svc-trace-id'] === traceId);
  // As long as a busy machine needs.
  const { text } = await waitUntil(find, { timeoutMs: 75_000, what: 'the outcome' });
  return JSON.parse(text) as Json;
};

/** The receiver gets the outcomes of asynchronous runs. */
export const runningEntrances = (vault: Vault, receiver: Receiver): RunningEntrances => ({
  async HTTP(_at, caller, asks) {
    const told: Told[] = [];
    for (const asked of asks) told.push(await ask(vault, caller, asked));
    return told;
  },
  async 'an idempotent replay'(_at, caller, asks) {
    const told: Told[] = [];
    for (const asked of asks) {
      const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
      for (let time = 0; time < 2; time += 1) told.push(await ask(vault, caller, asked, headers));
    }
    return told;
  },
  async 'reactor code'(at, caller, asks) {
    const path = `/reactors/${await makeCode(at, caller, asks)}/react`;
    return (await at.author.client.expect<{ raw: Told[] }>(200, 'POST', path, { body: {} })).body.raw;
  },
  async 'reactor code from the queue'(at, caller, asks) {
    const path = `/reactors/${await makeCode(at, caller, asks)}/react`;
    const traceId = randomUUID();
    const body = { callback_url: receiver.url, timeout_ms: 60_000 };
    await at.author.client.expect(202, 'POST', path, { body, headers: { 'SVC-TRACE-ID': traceId } });
    return ((await outcomeOf(receiver, traceId)) as unknown as { raw: Told[] }).raw;
  },
  async 'code of a proxy'(at, { id = '' }, asks) {
    const path = await makeProxyOf(at.manager, id, codeOf(asks));
    return (await at.author.client.expect<Told[]>(200, 'POST', path, { body: {} })).body;
  },
});

/** Invocations of a reactor that are run later. */
export const queue = (vault: Vault, receiver: Receiver): RunningEntrances => ({
  'the queue': (_at, caller, asks) =>
    Promise.all(
      asks.map(async (asked) => {
        const traceId = randomUUID();
        const body = { ...(asked.body as object), callback_url: receiver.url };
        const told = await ask(vault, caller, { ...asked, body }, { 'SVC-TRACE-ID': traceId });
        if (told.status !== 202) return told;
        const outcome = await outcomeOf(receiver, traceId);
        return { status: (outcome as { status?: number }).status, body: outcome };
      }),
    ),
});

/** The receiver is the destination of the proxies. They send it the arguments of invocations, and answer with what has arrived. */
export function proxies(vault: Vault, receiver: Receiver): RunningEntrances {
  async function send(path: string, { key, headers }: RunningCaller, { body }: Asked): Promise<Told> {
    const trace = randomUUID();
    const { args } = body as { readonly args: Json };
    const { status } = await fetch(vault.process().url + path, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'SVC-PROXY-URL': receiver.url,
        'X-Trace': trace,
        ...(key !== '' && { 'SVC-API-KEY': key }),
        ...headers,
      },
      body: JSON.stringify(args),
    });
    const arrived = receiver.deliveries.find((one) => one.headers['x-trace'] === trace);
    const raw = arrived && { raw: (JSON.parse(arrived.text) as { readonly x: Json }).x };
    // The receiver answers 204.
    return { status: status === 204 ? 200 : status, body: { ...raw } };
  }
  const sendAll = async (path: string, caller: RunningCaller, asks: readonly Asked[]) => {
    const told: Told[] = [];
    for (const asked of asks) told.push(await send(path, caller, asked));
    return told;
  };
  const destination = () => new URL(receiver.url).origin;
  return {
    'the proxy': (_at, caller, asks) => sendAll('/proxy', caller, asks),
    'a configured proxy': async ({ manager }, caller, asks) =>
      sendAll(await makeProxy(manager, { destination: destination() }), caller, asks),
    'a configured proxy without a key': async ({ manager }, { id = '' }, asks) => {
      const open = { destination: destination(), application: { id }, require_auth: false };
      return sendAll(await makeProxy(manager, open), { key: '' }, asks);
    },
  };
}
