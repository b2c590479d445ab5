import type { ApplicationKey, Proxy } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { json, useProxies } from './configured-proxies.ts';

const proxies = useProxies();
const { vault, destination, number, cardText, newProxy, ofApplication, newKey, invoke, withKey, logOf } =
  proxies;
const { manager } = vault;
const newApplication = vault.makeApplication;

describe('a key of a proxy', () => {
  it('gives access to its proxy by the rights of its application, and is stored nowhere', async () => {
    const id = await newProxy(ofApplication());
    const { key, id: keyId } = await newKey(id);
    const answer = await withKey(id, `/c?a=1&svc-proxy-key=${key}&b=2`, { text: cardText(), headers: json });
    expect(answer.status).toBe(200);
    const escaped = key.replaceAll('_', '%5F');
    expect((await withKey(id, `/c?Svc%2DProxy-Key=${escaped}`)).status).toBe(200);
    expect(destination.arrived.map(({ url }) => url)).toEqual(['/base/c?a=1&b=2', '/base/c']);
    expect(destination.arrived[0]?.body.toString()).toContain(number);
    await waitUntil(async () => (await logOf(answer.trace)).length === 3, { what: 'the log' });
    const [invoked, ...others] = await logOf(answer.trace);
    expect(invoked).toMatchObject({
      message: `Proxy invoked: POST ${destination.url}, by key ${keyId}`,
      actor_id: proxies.application.id,
    });
    const shown = await manager.expect<Proxy>(200, 'GET', `/proxies/${id}`);
    expect(shown.body.keys).toMatchObject([{ id: keyId }]);
    const everything =
      JSON.stringify([destination.arrived, invoked, others, shown.body]) + vault.process().output();
    expect(everything).not.toContain(key);
    expect(everything).not.toContain(escaped);
  });

  it('has the hour of its last use, like the key of an application', async () => {
    const caller = await newApplication({ permissions: ['token:use'] });
    const id = await newProxy(ofApplication());
    const [used, unused] = [await newKey(id), await newKey(id)];
    expect((await invoke(id, '', { by: manager.withKey(caller.key) })).status).toBe(200);
    expect((await withKey(id, `?svc-proxy-key=${used.key}`)).status).toBe(200);
    const hour = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z$/) as string;
    const created_at = expect.any(String) as string;
    await waitUntil(
      async () => {
        const { keys } = (await manager.expect<Proxy>(200, 'GET', `/proxies/${id}`)).body;
        return keys.some(({ last_used_at: at }) => at !== undefined);
      },
      { what: 'the last use' },
    );
    expect((await manager.expect<Proxy>(200, 'GET', `/proxies/${id}`)).body.keys).toEqual([
      { id: used.id, created_at, last_used_at: hour },
      { id: unused.id, created_at },
    ]);
    const listed = await manager.expect<ApplicationKey[]>(200, 'GET', `/applications/${caller.id}/keys`);
    expect(listed.body).toEqual([{ id: caller.id, created_at, last_used_at: hour }]);
  });

  it('gives access to its proxy only, and no other key of a proxy does', async () => {
    const [id, other] = [await newProxy(ofApplication()), await newProxy(ofApplication())];
    const [{ key }, { key: otherKey }] = [await newKey(id), await newKey(other)];
    const refused = [
      withKey(id, ''),
      withKey(id, `?svc-proxy-key=${otherKey}`),
      withKey(id, '?svc-proxy-key='),
      withKey(id, `?svc-proxy-key=${key}&svc-proxy-key=${key}`),
      withKey(id, `?svc-proxy-key=${proxies.application.key}`),
      withKey(id, `?svc-api-key=${proxies.application.key}`),
      invoke(id, '', { by: manager.withKey(key) }),
      invoke(id, `?svc-proxy-key=${key}`, { by: manager.withKey('key_pvt_unknown00') }),
      manager.request('GET', `/tokens?svc-proxy-key=${key}`, { key: null }),
      manager.request('POST', `/proxy?svc-proxy-key=${key}`, {
        key: null,
        headers: { 'SVC-PROXY-URL': destination.url },
      }),
      withKey('00000000-0000-4000-8000-000000000000', `?svc-proxy-key=${key}`),
    ];
    expect((await Promise.all(refused)).map(({ status }) => status)).toEqual(refused.map(() => 401));
    const [without, ofAnother] = await Promise.all([
      withKey(id, ''),
      withKey(id, `?svc-proxy-key=${otherKey}`),
    ]);
    for (const { body } of [without, ofAnother]) expect(body.detail).toContain('svc-proxy-key');
    expect(destination.arrived).toEqual([]);
    expect((await withKey(id, `?svc-proxy-key=${key}`)).status).toBe(200);
  });

  it('ends at once when it is deleted, expires, or its proxy or application is deleted', async () => {
    const own = await newApplication({ permissions: ['token:use'] });
    const id = await newProxy({ application: { id: own.id } });
    const [first, second] = [await newKey(id), await newKey(id)];
    const third = await newKey(id, { expires_at: new Date(Date.now() + 1_500).toISOString() });
    const use = async ({ key }: { key: string }) => (await withKey(id, `?svc-proxy-key=${key}`)).status;
    expect([await use(first), await use(second), await use(third)]).toEqual([200, 200, 200]);
    await manager.expect(204, 'DELETE', `/proxies/${id}/keys/${first.id}`);
    expect([await use(first), await use(second)]).toEqual([401, 200]);
    await waitUntil(async () => (await use(third)) === 401, { what: 'the end of the key' });
    await manager.expect(204, 'DELETE', `/applications/${own.id}`);
    expect(await use(second)).toBe(401);
    const refusals = await vault.logOf({ actor_id: own.id, operation: 'authenticate' });
    expect(refusals.length).toBeGreaterThan(1);
    const gone = await newProxy(ofApplication());
    const { key } = await newKey(gone);
    await manager.expect(204, 'DELETE', `/proxies/${gone}`);
    expect((await withKey(gone, `?svc-proxy-key=${key}`)).status).toBe(401);
    expect((await invoke(gone)).status).toBe(404);
  });

  it('is not needed where the proxy needs none; a wrong one is refused even so', async () => {
    const id = await newProxy({ ...ofApplication(), require_auth: false });
    expect((await withKey(id, '/c', { text: cardText(), headers: json })).status).toBe(200);
    expect(destination.arrived[0]?.body.toString()).toContain(number);
    expect((await withKey(id, '?svc-proxy-key=key_prx_unknown')).status).toBe(401);
    await manager.expect(204, 'PATCH', `/proxies/${id}`, {
      body: { require_auth: true },
    });
    expect((await withKey(id, '/c')).status).toBe(401);
  });
});

describe('the keys of an application', () => {
  it('are shown when they are made; lists and reads have neither the key nor its hash', async () => {
    const { id, key: first } = await newApplication({ permissions: ['token:use'] });
    const path = `/applications/${id}/keys`;
    const made = (await manager.expect<ApplicationKey>(201, 'POST', path, { body: {} })).body;
    const { key: second = '' } = made;
    expect(second).toMatch(/^key_pvt_/);
    const paths = [path, `${path}/${made.id}`, `${path}/${id}`, `/applications/${id}`, '/applications'];
    const shown = await Promise.all(paths.map((each) => manager.expect(200, 'GET', each)));
    expect(shown[1]?.body).toEqual({ id: made.id, created_at: made.created_at });
    for (const { text } of shown)
      for (const key of [first, second]) {
        expect(text).not.toContain(key);
        expect(text).not.toContain(createHash('sha256').update(key).digest('hex'));
      }
  });
});
