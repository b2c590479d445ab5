import type { Proxy } from '@token-vault/contracts';
import { cardNumber, type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { passDecisionTime, useDelayedDestination } from '../world/receivers.ts';
import { makeCard, useVault } from '../world/vault.ts';

// rules.md §6 for webhooks and for requests of code. Proxies: proxy-withdrawn.slow.test.ts.

const number = cardNumber();
const { destination, gate } = useDelayedDestination();
const vault = useVault(() => ({
  env: { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile },
}));
const { manager } = vault;
let owner: Client;

const application = (permissions: readonly string[]) => vault.makeApplication({ permissions });

beforeAll(async () => {
  owner = (await application(['token:create', 'token:delete'])).client;
  await vault.setTenant({ proxy_destinations: gate.url });
});

/** Waits for the connection, then longer than a decision may be used, and passes the connection on. */
async function holdUp(act: () => Promise<unknown>): Promise<void> {
  await waitUntil(() => gate.held.length === 1, { what: 'the connection', timeoutMs: 15_000 });
  const sinceMs = performance.now();
  await act();
  await passDecisionTime(sinceMs);
  gate.open();
}

interface Of {
  readonly callerId: string;
  readonly readerId: string;
}
const withdrawals: readonly [string, (of: Of) => Promise<unknown>][] = [
  ['its caller is deleted', (of) => manager.expect(204, 'DELETE', `/applications/${of.callerId}`)],
  [
    'the application of the reactor may not read any more',
    (of) =>
      manager.expect(200, 'PUT', `/applications/${of.readerId}`, {
        body: { name: 'narrowed', permissions: ['token:create'] },
      }),
  ],
];

describe('the delivery of a result whose receiver delays the connection', () => {
  async function begin() {
    const [reader, caller] = [await application(['token:read']), await application(['token:use'])];
    const code = 'module.exports = async ({ args, svc }) => ({ raw: await svc.tokens.retrieve(args.id) });';
    const reactor = await vault.makeReactor(code, { application: reader });
    const asked = { args: { id: await makeCard(owner, number) }, callback_url: `${gate.url}/hook` };
    await caller.client.expect(202, 'POST', `/reactors/${reactor}/react`, { body: asked });
    return { callerId: caller.id, readerId: reader.id };
  }
  const texts = () => destination.arrived.map(({ body }) => body.toString());

  it('is made once when no right was withdrawn', async () => {
    await begin();
    await holdUp(() => Promise.resolve());
    await waitUntil(() => destination.arrived.length === 1, { what: 'the delivery' });
    expect(texts()).toEqual([expect.stringContaining('"id"')]);
  });

  it.each(withdrawals)('sends a refusal in its place when %s meanwhile', async (_what, withdraw) => {
    const ids = await begin();
    await holdUp(() => withdraw(ids));
    await waitUntil(() => destination.arrived.length === 1, { what: 'the refusal' });
    expect(texts().map((text) => JSON.parse(text) as unknown)).toEqual([
      expect.objectContaining({ status: 403 }),
    ]);
  });
});

describe('a request of the code of a proxy whose destination delays the connection', () => {
  async function begin() {
    const [reader, caller] = [await application(['token:read']), await application(['token:use'])];
    // The code reads nothing by the rights of the application.
    const code = `module.exports = async ({ args: { body } }) => {
      await fetch('${gate.url}/code', { method: 'POST', body: JSON.stringify(body) });
      return {};
    };`;
    const made = { name: 'p', destination: gate.url, application: { id: reader.id }, request: { code } };
    const proxy = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: made })).body;
    const body = { card: `{{ ${await makeCard(owner, number)} }}` };
    const answer = caller.client.request('POST', `/proxies/${proxy.id}/invoke/x`, { body });
    return { answer, proxyId: proxy.id, callerId: caller.id, readerId: reader.id };
  }

  it('is sent when no right was withdrawn', async () => {
    const { answer } = await begin();
    await holdUp(() => Promise.resolve());
    await waitUntil(() => destination.arrived.length > 0, { what: 'the request of the code' });
    expect(destination.arrived[0]?.body.toString()).toContain(number);
    // The request of the proxy itself.
    await holdUp(() => Promise.resolve());
    expect((await answer).status).toBe(200);
  });

  it.each<[string, (of: Of & { proxyId: string }) => Promise<unknown>]>([
    ...withdrawals.slice(0, 1),
    ['the proxy is deleted', (of) => manager.expect(204, 'DELETE', `/proxies/${of.proxyId}`)],
    [
      'the application of the proxy is deleted',
      (of) => manager.expect(204, 'DELETE', `/applications/${of.readerId}`),
    ],
  ])('is not sent when %s meanwhile', async (_what, withdraw) => {
    const { answer, ...ids } = await begin();
    await holdUp(() => withdraw(ids));
    expect((await answer).status).toBeGreaterThanOrEqual(400);
    expect(destination.arrived).toEqual([]);
  });
});
