import type { Application, Proxy, Token } from '@token-vault/contracts';
import { type Client, printed, runCommand, waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import type { Problem } from './configured-proxies.ts';
import { useProxy } from './proxied-requests.ts';

const { vault, destination, manager, backend, number, card, newCaller, newToken, proxy, messagesOf } =
  useProxy();

let other: Promise<{ readonly manager: Client; readonly stranger: Client }> | undefined;
/** Another tenant, on the standard plan, with an application that may use tokens. */
const otherTenant = () => (other ??= makeTenant());
async function makeTenant() {
  const made = await runCommand(vault.dataDir, ['tenants', 'create', 'other', '--plan', 'standard']);
  const itsManager = manager.withKey(printed(made.stdout, 'management key'));
  const body = { name: 'o', type: 'private', permissions: ['token:use'] };
  const { key = '' } = (await itsManager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { manager: itsManager, stranger: manager.withKey(key) };
}

describe('a token', () => {
  const use = (id: string, by: Client = backend) => proxy('POST', { body: { v: `{{ ${id} }}` }, by });

  it('that may not be used is refused by its container, and the refusal is recorded; nothing is sent', async () => {
    const rule = {
      description: 'r',
      priority: 1,
      container: '/bank/',
      transform: 'reveal',
      permissions: ['token:use'],
    };
    const answer = await use(card.id, await newCaller({ rules: [rule] }));
    expect(answer.status).toBe(403);
    expect(await messagesOf(answer.trace)).toEqual(['Token access denied']);
    expect(destination.arrived).toEqual([]);
  });

  it('is sent in plaintext by a rule that masks, because the mask applies to readers', async () => {
    const rule = {
      description: 'r',
      priority: 1,
      container: '/pci/',
      transform: 'mask',
      permissions: ['token:use'],
    };
    const answer = await use(card.id, await newCaller({ rules: [rule] }));
    expect([answer.status, destination.arrived[0]?.body.toString().includes(number)]).toEqual([200, true]);
  });

  it('needs token:use, also for a request that names none', async () => {
    const reader = await newCaller({ permissions: ['token:read'] });
    expect((await proxy('GET', { by: reader })).status).toBe(403);
    expect((await proxy('GET', { by: manager })).status).toBe(403);
    expect((await proxy('GET', { by: manager.withKey('key_pvt_unknown') })).status).toBe(401);
    expect(destination.arrived).toEqual([]);
  });

  it('that is deleted, expired, unknown or of another tenant is a 400 that names its place', async () => {
    const gone = await newToken({ type: 'token', data: 'x' });
    await backend.expect(204, 'DELETE', `/tokens/${gone}`);
    const expires_at = new Date(Date.now() + 1_000).toISOString();
    const expired = await newToken({ type: 'token', data: 'x', expires_at });
    await waitUntil(() => Promise.resolve(Date.now() > Date.parse(expires_at)), { what: 'the expiry' });
    const { stranger } = await otherTenant();
    for (const [id, by] of [[gone], [expired], ['never-made'], [card.id, stranger]] as [string, Client?][]) {
      const answer = await use(id, by);
      expect([answer.status, answer.body.errors]).toEqual([
        400,
        { body: [`names a token that does not exist: ${id}`] },
      ]);
    }
    expect(destination.arrived).toEqual([]);
    // A standard plan without a list may send anywhere.
    expect((await proxy('GET', { by: stranger })).status).toBe(200);
  });

  it('counts as it is outside open transactions, also for a request that names one', async () => {
    const enlisted = async (method: string, path: string, body?: object) => {
      const { id } = (await backend.expect<{ id: string }>(201, 'POST', '/transactions')).body;
      const headers = { 'SVC-TRANSACTION-ID': id };
      const answer = await backend.request<Token>(method, path, { headers, ...(body && { body }) });
      return { id, headers, token: answer.body };
    };
    const open = await enlisted('POST', '/tokens', { type: 'token', data: 'not committed' });
    const asked = { body: { v: `{{ ${open.token.id} }}` } };
    for (const headers of [{}, open.headers]) {
      const answer = await proxy('POST', { ...asked, headers });
      expect([answer.status, answer.body.errors]).toEqual([
        400,
        { body: [`names a token that does not exist: ${open.token.id}`] },
      ]);
    }
    await backend.expect(200, 'POST', `/transactions/${open.id}/commit`);
    expect((await proxy('POST', asked)).status).toBe(200);

    const kept = await newToken({ type: 'token', data: 'still there' });
    const deleting = await enlisted('DELETE', `/tokens/${kept}`);
    expect((await proxy('POST', { body: [`{{ ${kept} }}`], headers: deleting.headers })).status).toBe(200);
    await backend.expect(200, 'POST', `/transactions/${deleting.id}/commit`);
    expect((await use(kept)).status).toBe(400);
    expect(destination.arrived.map(({ body }) => body.toString())).toEqual([
      '{"v":"not committed"}',
      '["still there"]',
    ]);
    expect(JSON.stringify(destination.arrived.map(({ headers }) => headers))).not.toContain('transaction');
  });

  it('whose value would begin a header of its own is 422; nothing is sent', async () => {
    const id = await newToken({ type: 'token', data: 'a\r\nX-Injected: 1' });
    const answer = await proxy('GET', { headers: { 'X-Value': `{{ ${id} }}` } });
    expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([422, ['headers.x-value']]);
    expect(answer.text).not.toContain('Injected');
    expect(destination.arrived).toEqual([]);
    expect(await messagesOf(answer.trace)).toContain('Token used');
  });
});

describe('a configured proxy', () => {
  it('is absent in another tenant: nobody there can see, change or use it', async () => {
    const body = { name: 'p', destination: destination.url };
    const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
    const { manager: theirs, stranger } = await otherTenant();
    const path = `/proxies/${id}`;
    const answers = [
      await theirs.request('GET', path),
      await theirs.request('PUT', path, { body }),
      await theirs.request('PATCH', path, { body: { name: 'q' } }),
      await theirs.request('POST', `${path}/keys`),
      await theirs.request('DELETE', path),
      await stranger.request('POST', `${path}/invoke`, { body }),
    ];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    expect((await theirs.expect<{ data: unknown[] }>(200, 'GET', '/proxies')).body.data).toEqual([]);
    expect(destination.arrived).toEqual([]);
    expect((await manager.expect<Proxy>(200, 'GET', path)).body).toMatchObject({ ...body, keys: [] });
  });
});

describe('the limits of destinations', () => {
  it.each([
    'https://169.254.169.254/latest/meta-data',
    'https://[::1]/',
    'https://10.0.0.1/',
    'http://10.0.0.1/',
    'https://0xa000001/',
    'https://metadata.localhost/',
  ])('refuse %s though the tenant allows it', async (to) => {
    const answer = await proxy('POST', { to, body: { card: `{{ ${card.id} }}` } });
    expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([403, ['SVC-PROXY-URL']]);
    expect(answer.text).not.toMatch(/169\.254|10\.0/);
  });

  it('refuse destinations that the tenant has not allowed, and record it', async () => {
    const answer = await proxy('GET', { to: 'https://elsewhere.example/' });
    expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([403, ['SVC-PROXY-URL']]);
    expect(await messagesOf(answer.trace)).toEqual(['Proxy access denied']);
  });

  it('refuse a list that cannot be read', async () => {
    const settings = { proxy_destinations: 'example.com' };
    const answer = await manager.request<Problem>('PUT', '/tenants/self', { body: { name: 't', settings } });
    expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([
      400,
      ['settings.proxy_destinations'],
    ]);
  });
});
