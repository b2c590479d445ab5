import { randomUUID } from 'node:crypto';
import type { ConsoleSession } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { cookieOf, shownBy } from './console-browser.ts';
import { keyOf, useConsole } from './console-vault.ts';

const { vault, revealing, token, make, signIn, browser, signedIn, logOf } = useConsole();

describe('signing in', () => {
  it('gives a cookie without a key, which scripts cannot read and other sites cannot send', async () => {
    const reply = await signIn(vault.managementKey);
    expect(reply.status).toBe(201);
    const cookie = reply.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(/^vault-console=[\da-f-]{36}\.[\w-]{32}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(cookie).not.toContain(vault.managementKey);
    expect(reply.body).toMatchObject({
      tenant: { name: 'First tenant', plan: 'enterprise' },
      applications: [{ type: 'management' }],
      is_operator: true,
    });
    const { id } = reply.body as ConsoleSession;
    expect(await logOf({ entity_id: id })).toMatchObject([
      { operation: 'create', actor_type: 'application', message: 'Console session opened' },
    ]);
  });

  it('is refused with a bad key, a public key, the key of a session of a browser, and by the cookie alone', async () => {
    const open = await make({ type: 'public', permissions: ['token:create'] });
    const { cookie } = await signedIn();
    expect((await signIn('key_mgt_aaaaaaaaaaaaaaaaaaaaaaaa')).status).toBe(401);
    expect((await signIn(keyOf(open))).status).toBe(403);
    const byCookie = await browser(cookie).call({ method: 'POST', path: '/console/session' });
    expect(byCookie.status).toBe(403);
    const secret = cookie.split('=')[1] ?? '';
    expect((await vault.call({ path: '/tokens', key: secret })).status).toBe(401);
  });

  it('with a second key keeps the first application, changes the secret and ends the previous session', async () => {
    const { session, former, must } = await signedIn();
    expect(session.applications.map(({ type }) => type)).toEqual(['management', 'private']);
    expect((await browser(former).call({ path: '/console/session' })).status).toBe(401);
    expect(await must<ConsoleSession>(200, { path: '/console/session' })).toEqual(session);
  });

  it('with an idempotency key gives a cookie each time, because its secret is stored nowhere', async () => {
    const once = { 'SVC-IDEMPOTENCY-KEY': 'sign-in' };
    const replies = [await signIn(vault.managementKey, once), await signIn(vault.managementKey, once)];
    expect(replies.map(({ status }) => status)).toEqual([201, 201]);
    for (const reply of replies)
      expect((await browser(cookieOf(reply)).call({ path: '/console/session' })).status).toBe(200);
    expect(new Set(replies.map(cookieOf)).size).toBe(2);
  });

  it.each<[string, Record<string, string>]>([
    ['', {}],
    [', also when the client says that it came by https', { 'X-Forwarded-Proto': 'https' }],
    [', also when the client names another host', { 'X-Forwarded-Host': 'localhost' }],
  ])('over http to a name that is not this machine is refused%s', async (_case, said) => {
    const { hostname, port } = new URL(vault.url);
    const { request } = await import('node:http');
    const status = await new Promise<number>((resolve, reject) => {
      request(
        {
          host: hostname,
          port,
          method: 'POST',
          path: '/console/session',
          headers: { Host: 'vault.example.com', 'SVC-API-KEY': vault.managementKey, ...said },
        },
        (answer) => resolve(answer.resume().statusCode ?? 0),
      )
        .on('error', reject)
        .end();
    });
    expect(status).toBe(403);
  });
});

describe('a request with the cookie', () => {
  it.each<[string, Record<string, string>]>([
    ['another origin', { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }],
    [
      'another origin, which it names as its host, too',
      {
        Origin: 'https://evil.example',
        'X-Forwarded-Host': 'evil.example',
        'X-Forwarded-Proto': 'https',
        Forwarded: 'host=evil.example;proto=https',
      },
    ],
    ['no origin', { Origin: '' }],
    ['an opaque origin', { Origin: 'null' }],
    ['a neighbouring site', { 'Sec-Fetch-Site': 'same-site' }],
  ])('that changes something is refused from %s', async (_name, headers) => {
    const { cookie } = await signedIn();
    const sent = { Cookie: cookie, Origin: vault.url, ...shownBy(cookie), ...headers };
    if (sent.Origin === '') delete (sent as { Origin?: string }).Origin;
    const before = (
      await vault.must<{ name: string }>(200, { path: '/tenants/self', key: vault.managementKey })
    ).name;
    const reply = await vault.call({
      method: 'PUT',
      path: '/tenants/self',
      headers: sent,
      body: { name: 'forged' },
    });
    expect(reply.status).toBe(403);
    const { name } = await vault.must<{ name: string }>(200, {
      path: '/tenants/self',
      key: vault.managementKey,
    });
    expect(name).toBe(before);
  });

  it.each(['broken', `${randomUUID()}.${'x'.repeat(32)}`, 'of a session that has ended'])(
    'is taken when another cookie of the name comes before it: %s',
    async (value) => {
      const { cookie, former } = await signedIn();
      const other = value.startsWith('of') ? former : `vault-console=${value}`;
      const both = browser(`${other}; ${cookie}`);
      await both.must(200, { path: '/console/session' });
      // A sign-in ends the session that the requests were made by.
      await both.must(201, { method: 'POST', path: '/console/session', key: vault.managementKey });
      expect((await browser(cookie).call({ path: '/console/session' })).status).toBe(401);
    },
  );

  it('is looked for among the first four cookies of the name', async () => {
    const { cookie } = await signedIn();
    const others = (count: number) =>
      Array.from({ length: count }, () => `vault-console=${randomUUID()}.${'x'.repeat(32)}; `).join('');
    const statusAfter = async (count: number) =>
      (await browser(`${others(count)}${cookie}`).call({ path: '/console/session' })).status;
    expect([await statusAfter(3), await statusAfter(4)]).toEqual([200, 401]);
  });

  it('is the application as it is now: a deleted key ends it at once', async () => {
    const admin = await make({ type: 'management', permissions: ['log:read', 'application:read'] });
    const { must, call } = browser(cookieOf(await signIn(keyOf(admin))));
    await must(200, { path: '/logs' });
    expect((await call({ path: '/tenants/self' })).status).toBe(403);
    await vault.must(200, {
      method: 'PUT',
      path: `/applications/${admin.id}`,
      key: vault.managementKey,
      body: { name: 'a', permissions: ['application:read'] },
    });
    expect((await call({ path: '/logs' })).status).toBe(403);
    await vault.must(200, {
      method: 'POST',
      path: `/applications/${admin.id}/regenerate`,
      key: vault.managementKey,
    });
    expect((await call({ path: '/console/session' })).status).toBe(401);
  });

  it('can be ended when one of its two keys has ended', async () => {
    const admin = await make({ type: 'management', permissions: ['log:read'] });
    const first = cookieOf(await signIn(keyOf(admin)));
    const sent = { method: 'POST', path: '/console/session', key: keyOf(revealing) } as const;
    const both = cookieOf(await browser(first).call(sent));
    const { call, must } = browser(both);
    const path = `/applications/${admin.id}/regenerate`;
    await vault.must(200, { method: 'POST', path, key: vault.managementKey });
    await must(200, { path: `/tokens/${token.id}` });
    expect((await call({ method: 'DELETE', path: '/console/session' })).status).toBe(204);
    await must(401, { path: `/tokens/${token.id}` });
  });

  it('can be ended when one of its two keys has expired', async () => {
    const admin = await make({ type: 'management', permissions: ['log:read'] });
    const first = cookieOf(await signIn(keyOf(admin)));
    const sent = { method: 'POST', path: '/console/session', key: keyOf(revealing) } as const;
    const { call, must } = browser(cookieOf(await browser(first).call(sent)));
    const path = `/applications/${admin.id}/regenerate?overlap=1`;
    await vault.must(200, { method: 'POST', path, key: vault.managementKey });
    await waitUntil(async () => (await call({ path: '/logs?size=1' })).status === 401, {
      what: 'the end of the key',
    });
    await must(200, { path: '/console/session' });
    expect((await call({ method: 'DELETE', path: '/console/session' })).status).toBe(204);
    await must(401, { path: `/tokens/${token.id}` });
  });

  it('is not accepted after sign-out, and the log has both', async () => {
    const { cookie, session, call, must } = await signedIn();
    const out = await call({ method: 'DELETE', path: '/console/session' });
    expect(out.status).toBe(204);
    expect(out.headers.get('set-cookie')).toMatch(/^vault-console=; .*Max-Age=0/);
    await must(401, { path: '/console/session' });
    await must(401, { path: '/tokens' });
    await must(401, { path: '/logs' });
    expect((await browser(cookie).call({ path: '/applications' })).status).toBe(401);
    const told = (await logOf({ entity_id: session.id })).map(({ operation }) => operation);
    expect(new Set(told)).toEqual(new Set(['create', 'delete', 'authenticate']));
  });
});
