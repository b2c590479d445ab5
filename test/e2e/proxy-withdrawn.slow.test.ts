import type { Proxy, Token } from '@token-vault/contracts';
import { cardNumber, cardToken, type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { passDecisionTime, useDelayedDestination } from '../world/receivers.ts';
import { makeCard, useVault } from '../world/vault.ts';

// rules.md §6: after a withdrawal is answered, no request is decided by the old right. Here the destination delays the connection.

const number = cardNumber();
const { destination, gate } = useDelayedDestination();
const vault = useVault(() => ({
  env: { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile },
}));
const { manager } = vault;
let owner: Client;

const application = (permissions: readonly string[]) => vault.makeApplication({ permissions });

const allow = (proxy_destinations: string) => vault.setTenant({ proxy_destinations });

beforeAll(async () => {
  owner = (await application(['token:create', 'token:delete'])).client;
});
beforeEach(() => allow(gate.url));

interface Withdrawn {
  readonly applicationId: string;
  readonly tokenId: string;
}

async function replace(id: string): Promise<void> {
  await owner.expect(204, 'DELETE', `/tokens/${id}`);
  await owner.expect(201, 'POST', '/tokens', { body: { ...cardToken(), id } });
}

const elsewhere = 'https://api.example.com';
const withdrawals: readonly [string, number, (of: Withdrawn) => Promise<unknown>][] = [
  [
    'the application is deleted',
    401,
    (of) => manager.expect(204, 'DELETE', `/applications/${of.applicationId}`),
  ],
  ['the token is deleted', 400, (of) => owner.expect(204, 'DELETE', `/tokens/${of.tokenId}`)],
  ['the token is deleted and its id is taken', 400, (of) => replace(of.tokenId)],
  ['the destination is not allowed any more', 403, () => allow(elsewhere)],
];

async function begin() {
  const caller = await application(['token:use']);
  const tokenId = await makeCard(owner, number);
  // A UUID alone is accepted, whatever its digits: in a longer text they may look like a card number.
  const trace = tokenId;
  const sinceMs = performance.now();
  const answer = caller.client.request('POST', '/proxy', {
    body: { card: `{{ ${tokenId} }}` },
    headers: { 'SVC-PROXY-URL': gate.url, 'SVC-TRACE-ID': trace },
  });
  const passTime = () => passDecisionTime(sinceMs);
  return { answer, trace, passTime, ids: { applicationId: caller.id, tokenId } };
}

const messagesOf = async (trace: string): Promise<string[]> =>
  (await vault.logOf({ trace_id: trace })).map(({ message }) => message);

describe('a request whose connection is delayed by its destination', () => {
  it.each(withdrawals)('is not sent when %s meanwhile', async (_what, status, withdraw) => {
    const { answer, ids, trace, passTime } = await begin();
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    await withdraw(ids);
    await passTime();
    gate.open();
    expect((await answer).status).toBe(status);
    expect(destination.arrived).toEqual([]);
    // The caller does not wait for the record of the end.
    await waitUntil(async () => (await messagesOf(trace)).includes('Proxy failed: not-sent'), {
      what: 'the record of the end',
    });
  });

  it('is sent once when no right was withdrawn', async () => {
    const { answer, passTime } = await begin();
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    await passTime();
    gate.open();
    expect((await answer).status).toBe(200);
    expect(destination.arrived.map(({ body }) => body.toString())).toEqual([expect.stringContaining(number)]);
  });

  it('is answered when its proxy gets another key meanwhile', async () => {
    const caller = await application(['token:use']);
    const body = { name: 'p', destination: gate.url, application: { id: caller.id } };
    const proxy = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
    destination.answer = (_request, response) => void response.end('done');
    const answer = caller.client.request('POST', `/proxies/${proxy.id}/invoke/x`, { body: {} });
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    await manager.expect(201, 'POST', `/proxies/${proxy.id}/keys`, { body: {} });
    gate.open();
    expect((await answer).status).toBe(200);
  });

  it('has its answer withheld when the key of the proxy is deleted before the answer', async () => {
    const user = await application(['token:use']);
    const tokenId = await makeCard(owner, number);
    const body = { name: 'p', destination: destination.url, application: { id: user.id } };
    await allow(destination.url);
    const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
    const keys = `/proxies/${id}/keys`;
    const made = (await manager.expect<{ id: string; key: string }>(201, 'POST', keys, { body: {} })).body;
    let release = (): void => undefined;
    destination.answer = (request, response) => {
      release = () => void response.end(request.body);
    };
    const path = `/proxies/${id}/invoke/x?svc-proxy-key=${made.key}`;
    const answer = manager.withKey('').request('POST', path, { body: { card: `{{ ${tokenId} }}` } });
    await waitUntil(() => destination.arrived.length === 1, { what: 'the request' });
    await manager.expect(204, 'DELETE', `${keys}/${made.id}`);
    release();
    const { status, text } = await answer;
    expect([status, text.includes(number)]).toEqual([401, false]);
  });

  it('has its answer withheld when its caller is deleted before the answer', async () => {
    const { answer, ids, passTime } = await begin();
    let release = (): void => undefined;
    destination.answer = (request, response) => {
      release = () => void response.end(request.body);
    };
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    gate.open();
    await waitUntil(() => destination.arrived.length === 1, { what: 'the request' });
    await manager.expect(204, 'DELETE', `/applications/${ids.applicationId}`);
    await passTime();
    release();
    const { status, text } = await answer;
    expect([status, text.includes(number)]).toEqual([401, false]);
  });
});

const withdrawalsOfCode: readonly [string, number, (of: Withdrawn) => Promise<unknown>][] = [
  [
    'its application loses the right',
    403,
    (of) =>
      manager.expect(200, 'PUT', `/applications/${of.applicationId}`, {
        body: { name: 'narrowed', permissions: ['token:create'] },
      }),
  ],
  [
    'its application is deleted',
    403,
    (of) => manager.expect(204, 'DELETE', `/applications/${of.applicationId}`),
  ],
  ['the token is deleted', 409, (of) => owner.expect(204, 'DELETE', `/tokens/${of.tokenId}`)],
  ['the token is deleted and its id is taken', 409, (of) => replace(of.tokenId)],
];

describe('a request with a token that the code of a proxy has read', () => {
  it.each(withdrawalsOfCode)('is not sent when %s meanwhile', async (_what, status, withdraw) => {
    const [reader, caller] = [await application(['token:read']), await application(['token:use'])];
    const tokenId = await makeCard(owner, number);
    const code = `module.exports = async (req) => ({
      raw: { body: await req.svc.tokens.retrieve('${tokenId}') },
    });`;
    const body = { name: 'reads', destination: gate.url, application: { id: reader.id }, request: { code } };
    const proxy = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
    const answer = caller.client.request('POST', `/proxies/${proxy.id}/invoke/x`, { body: {} });
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    const sinceMs = performance.now();
    await withdraw({ applicationId: reader.id, tokenId });
    await passDecisionTime(sinceMs);
    gate.open();
    expect((await answer).status).toBe(status);
    expect(destination.arrived).toEqual([]);
  });
});

describe('a request with a token that the code of a proxy has made', () => {
  it('is sent although the code has read and deleted the token', async () => {
    const [maker, caller] = [
      await application(['token:create', 'token:read', 'token:delete']),
      await application(['token:use']),
    ];
    const code = `module.exports = async ({ svc }) => {
      const { id } = await svc.tokens.create({ type: 'token', data: 'made' });
      await svc.tokens.retrieve(id);
      await svc.tokens.delete(id);
      return { raw: { body: { id } } };
    };`;
    const body = { name: 'p', destination: gate.url, application: { id: maker.id }, request: { code } };
    const proxy = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
    destination.answer = (_request, response) => void response.end('done');
    const answer = caller.client.request('POST', `/proxies/${proxy.id}/invoke/x`, { body: {} });
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    gate.open();
    expect((await answer).status).toBe(200);
  });
});

describe('a request that is too large for the code of its proxy', () => {
  it('counts as a miss, because its size depends on the data of the token', async () => {
    await vault.setTenant({ proxy_destinations: gate.url, data_misses_per_minute: '3' });
    const caller = await application(['token:use']);
    const tokenId = await makeCard(owner, number);
    const request = { code: 'module.exports = async () => ({});' };
    const body = { name: 'p', destination: gate.url, request };
    const proxy = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
    const guess = async () => {
      const text = `${'p'.repeat(1_048_575)}{{ ${tokenId} | json: '$.number' | slice: 0, 2 }}`;
      const headers = { 'Content-Type': 'text/plain' };
      return (await caller.client.request('POST', `/proxies/${proxy.id}/invoke/x`, { text, headers })).status;
    };
    expect([await guess(), await guess(), await guess(), await guess()]).toEqual([413, 413, 413, 429]);
    expect(gate.held).toEqual([]);
  });
});

describe('a request with a token that expires while its connection is delayed', () => {
  it('is not sent', async () => {
    const [caller, body] = [await application(['token:use']), cardToken(number)];
    const expires_at = new Date(Date.now() + 2_000).toISOString();
    const made = await owner.expect<Token>(201, 'POST', '/tokens', { body: { ...body, expires_at } });
    const headers = { 'SVC-PROXY-URL': gate.url };
    const answer = caller.client.request('POST', '/proxy', {
      body: { card: `{{ ${made.body.id} }}` },
      headers,
    });
    await waitUntil(() => gate.held.length === 1, { what: 'the connection' });
    await waitUntil(() => Date.parse(expires_at) < Date.now() - 100, { what: 'the end of the token' });
    gate.open();
    expect((await answer).status).toBe(400);
    expect(destination.arrived).toEqual([]);
  });
});

interface OfFetch {
  readonly proxyId: string;
  readonly callerId: string;
  readonly readerId: string;
  readonly readId: string;
  readonly usedId: string;
}

const narrowedTo = (id: string, permissions: readonly string[]) =>
  manager.expect(200, 'PUT', `/applications/${id}`, { body: { name: 'narrowed', permissions } });
const onlyMine = [
  { description: 'mine', priority: 1, container: '/mine/', transform: 'reveal', permissions: ['token:use'] },
];

const withdrawalsOfFetch: readonly [string, (of: OfFetch) => Promise<unknown>][] = [
  ['the proxy is deleted', (of) => manager.expect(204, 'DELETE', `/proxies/${of.proxyId}`)],
  ['the destination is not allowed any more', () => allow(elsewhere)],
  ['the caller is deleted', (of) => manager.expect(204, 'DELETE', `/applications/${of.callerId}`)],
  ['the application of the code may not read', (of) => narrowedTo(of.readerId, ['token:create'])],
  ['a token that the code has read is deleted', (of) => owner.expect(204, 'DELETE', `/tokens/${of.readId}`)],
  [
    'the caller may not use the token, and its id is taken by another one',
    async (of) => {
      const body = { name: 'narrowed', rules: onlyMine };
      await manager.expect(200, 'PUT', `/applications/${of.callerId}`, { body });
      await owner.expect(204, 'DELETE', `/tokens/${of.usedId}`);
      const another = { ...cardToken(), id: of.usedId, containers: ['/mine/'] };
      await owner.expect(201, 'POST', '/tokens', { body: another });
    },
  ],
];

/** An exchange whose code has sent one request of its own, which waits for `release`. */
async function beginWithCode(second: string) {
  const [reader, caller] = [await application(['token:read']), await application(['token:use'])];
  await allow(destination.url);
  const [readId, usedId] = [await makeCard(owner, number), await makeCard(owner, number)];
  const code = `module.exports = async ({ args: { body }, svc }) => {
    await svc.tokens.retrieve('${readId}');
    await fetch('${destination.url}/first');
    ${second}
    return {};
  };`;
  const made = {
    name: 'sends',
    destination: destination.url,
    application: { id: reader.id },
    request: { code },
  };
  const proxy = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: made })).body;
  let release = (): void => undefined;
  destination.answer = (_request, response) => {
    release = () => {
      destination.answer = (_later, later) => void later.end('2');
      response.end('1');
    };
  };
  const body = { card: `{{ ${usedId} }}` };
  const answer = caller.client.request('POST', `/proxies/${proxy.id}/invoke/x`, { body });
  await waitUntil(() => destination.arrived.length === 1, { what: 'the first request of the code' });
  const ids = { proxyId: proxy.id, callerId: caller.id, readerId: reader.id, readId, usedId };
  return { answer, ids, release: () => release() };
}

const fetchingAgain = () =>
  `await fetch('${destination.url}/second', { method: 'POST', body: JSON.stringify(body) });`;

describe('code of a proxy that is under way', () => {
  it('sends requests when no right was withdrawn', async () => {
    const { answer, release } = await beginWithCode(fetchingAgain());
    release();
    expect((await answer).status).toBe(200);
    expect(destination.arrived.map(({ url }) => url)).toEqual(['/first', '/second', '/x']);
  });

  /** The code sends no request after the first one. */
  async function expectNothingMore(second: string, withdraw: (of: OfFetch) => Promise<unknown>) {
    const { answer, ids, release } = await beginWithCode(second);
    const sinceMs = performance.now();
    await withdraw(ids);
    await passDecisionTime(sinceMs);
    release();
    expect((await answer).status.toString()).toMatch(/^4/);
    expect(destination.arrived.map(({ url }) => url)).toEqual(['/first']);
  }

  it.each(withdrawalsOfFetch)('sends no request of its own when %s meanwhile', (_what, withdraw) =>
    expectNothingMore(fetchingAgain(), withdraw),
  );

  it.each(withdrawalsOfFetch)('has no request sent after it when %s meanwhile', (_what, withdraw) =>
    expectNothingMore('', withdraw),
  );
});
