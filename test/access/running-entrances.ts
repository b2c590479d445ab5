import { randomUUID } from 'node:crypto';
import { waitUntil } from '@token-vault/test-support';
import type { Receiver } from '../e2e/receiver.ts';
import { makeProxyOf } from '../world/proxies.ts';
import type { OtherTenant } from '../world/tenants.ts';
import { type Caller, makeReactorBy, type TestVault } from '../world/vault.ts';
import type { Asked, Told } from './asked.ts';
import { tellOverHttp } from './entrances.ts';

/** A way into a running vault. Gives the answers in the order of the requests, as many to each. */
type RunningEntrance = (at: OtherTenant, caller: Caller, asks: readonly Asked[]) => Promise<readonly Told[]>;

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

const makeCode = ({ manager }: OtherTenant, application: Caller, asks: readonly Asked[]): Promise<string> =>
  makeReactorBy(manager, codeOf(asks), { application });

/** The receiver gets the outcomes of asynchronous runs. */
export const runningEntrances = (
  vault: Pick<TestVault, 'process'>,
  receiver: Receiver,
): Readonly<Record<string, RunningEntrance>> => ({
  async HTTP(_at, { key }, asks) {
    const told: Told[] = [];
    for (const asked of asks) told.push(await tellOverHttp(vault.process().url, key, asked));
    return told;
  },
  async 'an idempotent replay'(_at, { key }, asks) {
    const told: Told[] = [];
    for (const asked of asks) {
      const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
      for (let time = 0; time < 2; time += 1)
        told.push(await tellOverHttp(vault.process().url, key, asked, headers));
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
    // As long as a busy machine needs.
    const body = { callback_url: receiver.url, timeout_ms: 60_000 };
    await at.author.client.expect(202, 'POST', path, { body, headers: { 'SVC-TRACE-ID': traceId } });
    const find = () => receiver.deliveries.find((one) => one.headers['svc-trace-id'] === traceId);
    const delivery = await waitUntil(find, { timeoutMs: 75_000, what: 'the outcome' });
    return (JSON.parse(delivery.text) as { raw: Told[] }).raw;
  },
  async 'code of a proxy'(at, caller, asks) {
    const path = await makeProxyOf(at.manager, caller.id, codeOf(asks));
    return (await at.author.client.expect<Told[]>(200, 'POST', path, { body: {} })).body;
  },
});
