import type {
  AccessMatrix,
  Application,
  ConsoleOverview,
  ConsoleSession,
  Explanation,
  LogEntry,
  Token,
  VaultOperations,
} from '@token-vault/contracts';
import { cardNumber, waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  browser as browserOf,
  cookieOf,
  shownBy,
  signedIn as signedInAt,
  signIn as signInAt,
} from './console-browser.ts';
import { startVault, type Call, type RunningVault } from './running-vault.ts';

let vault: RunningVault;
let revealing: Application;
let token: Token;
const number = cardNumber();

const everyTokenPermission = ['create', 'read', 'update', 'delete', 'search', 'use'].map(
  (verb) => `token:${verb}`,
);
const make = (body: object) =>
  vault.must<Application>(201, {
    method: 'POST',
    path: '/applications',
    key: vault.managementKey,
    body: { name: 'a', ...body },
  });
const keyOf = ({ key = '' }: Application): string => key;

beforeAll(async () => {
  vault = await startVault();
  const rule = { description: 'all', priority: 1, container: '/', transform: 'reveal' };
  revealing = await make({ type: 'private', rules: [{ ...rule, permissions: everyTokenPermission }] });
  token = await vault.must<Token>(201, {
    method: 'POST',
    path: '/tokens',
    key: keyOf(revealing),
    body: { type: 'card', data: { number }, fingerprint_expression: '{{ data.number }}' },
  });
});
afterAll(() => vault.stop());

const signIn = (key: string, headers: Record<string, string> = {}) => signInAt(vault, key, headers);
const browser = (cookie: string) => browserOf(vault, cookie);
const signedIn = () => signedInAt(vault, keyOf(revealing));

const logOf = async (filters: Record<string, string>): Promise<LogEntry[]> => {
  const path = `/logs?${new URLSearchParams({ size: '100', ...filters }).toString()}`;
  return (await vault.must<{ data: LogEntry[] }>(200, { path, key: vault.managementKey })).data;
};

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

describe('a private key with a rule that reveals', () => {
  it('shows no plaintext and no fingerprint by any operation of a console session', async () => {
    const { call, must, session } = await signedIn();
    const at = `/tokens/${token.id}`;
    const patch = { headers: { 'Content-Type': 'application/merge-patch+json' } };
    const replies = await Promise.all([
      call({ path: at }),
      call({ path: '/tokens' }),
      call({ method: 'POST', path: '/tokens/search', body: { query: 'type:card' } }),
      call({ method: 'POST', path: '/detokenize', body: { card: `{{ ${token.id} }}` } }),
      call({ method: 'PATCH', path: at, body: { metadata: { a: 'b' } }, ...patch }),
    ]);
    for (const { status, text } of replies) {
      expect(status, text).toBe(200);
      expect(text).toContain(`XXXX${number.slice(-4)}`);
      expect(text).not.toContain(number);
      expect(text).not.toContain('"fingerprint"');
    }
    // A caller that may not see data cannot change how others see it.
    const mask = { mask: '{{ data.number }}' };
    expect((await call({ method: 'PATCH', path: at, body: mask, ...patch })).status).toBe(403);
    const made = await call({ method: 'POST', path: '/tokens', body: { type: 'card', data: { number } } });
    expect([made.status, made.text.includes(number)]).toEqual([201, false]);
    const shown = await logOf({ entity_id: token.id, actor_id: session.id });
    expect(shown.length).toBeGreaterThan(3);
    expect(shown.some(({ transform }) => transform === 'reveal')).toBe(false);
    await must(401, { method: 'POST', path: '/proxy', headers: { 'SVC-PROXY-URL': 'https://example.com' } });
  });

  it('shows no fingerprint in the repeat of a request either, nor in what a reactor makes', async () => {
    const { call, must } = await signedIn();
    const body = {
      type: 'token',
      data: 'equal',
      containers: ['/pci/high/'],
      fingerprint_expression: '{{ data }}',
    };
    const requests: Call[] = [
      { method: 'POST', path: '/tokens', body },
      { method: 'POST', path: '/tokenize', body: { a: body } },
      { method: 'POST', path: '/tokens/batch', body: { tokens: [body] } },
    ];
    for (const request of requests) {
      const once = { ...request, headers: { 'SVC-IDEMPOTENCY-KEY': request.path } };
      const [first, repeat] = [await call(once), await call(once)];
      expect([first.status, repeat.status]).toEqual([first.status, first.status]);
      expect(first.status).toBeLessThan(300);
      expect(repeat.text).toBe(first.text);
      expect(repeat.text).not.toContain('"fingerprint":');
    }
    const code = `module.exports = async () => ({ tokenize: ${JSON.stringify({ a: body })} });`;
    const reactor = { name: 'maker', code, configuration: {} };
    const { id } = await must<{ id: string }>(201, { method: 'POST', path: '/reactors', body: reactor });
    const made = await call({ method: 'POST', path: `/reactors/${id}/react`, body: { args: {} } });
    expect([made.status, made.text.includes('"fingerprint":')]).toEqual([200, false]);
  });

  it('lets a reactor run without tokens, whose code then sees them masked too', async () => {
    const { call, must } = await signedIn();
    const code = `module.exports = async (req) => {
      const raw = req.args.id ? await req.svc.tokens.retrieve(req.args.id) : req.args;
      if (req.args.id) console.log(raw.data.number);
      return { raw };
    };`;
    const { id } = await must<{ id: string }>(201, {
      method: 'POST',
      path: '/reactors',
      body: { name: 'r', code, configuration: {}, application: { id: revealing.id } },
    });
    const react = (args: object) => call({ method: 'POST', path: `/reactors/${id}/react`, body: { args } });
    expect((await react({ card: `{{ ${token.id} }}` })).status).toBe(403);
    expect((await react({ plain: 1 })).body).toEqual({
      raw: { plain: 1 },
      run: { console: [], is_cut: false, tokens_seen: 0 },
    });
    const asked = await react({ id: token.id });
    expect([
      asked.status,
      asked.text.includes(number),
      asked.text.includes(`XXXX${number.slice(-4)}`),
    ]).toEqual([200, false, true]);
    expect(asked.body).toMatchObject({
      run: { console: [{ level: 'log', text: expect.stringContaining('XXXX') as string }], tokens_seen: 1 },
    });
    const byKey = {
      method: 'POST',
      path: `/reactors/${id}/react`,
      key: keyOf(revealing),
      body: { args: {} },
    };
    expect((await vault.call(byKey)).body).toEqual({ raw: {} });
  });
});

describe('the access of applications', () => {
  it('is explained as reads decide it, to readers of the log, and is recorded', async () => {
    const { must } = await signedIn();
    const at = `/applications/${revealing.id}/explain?token_id=${token.id}`;
    const explained = await must<Explanation>(200, { path: at });
    expect(explained).toMatchObject({
      token: { id: token.id, containers: ['/pci/high/'] },
      operations: everyTokenPermission.map(() => ({
        transform: 'reveal',
        by: 'rule',
        rule: { priority: 1 },
      })),
    });
    const matrix = await must<AccessMatrix>(200, { path: `/applications/access?id=${revealing.id}` });
    expect(matrix).toMatchObject({
      containers: ['/pci/high/'],
      data: [{ access: [{ transform: 'reveal' }] }],
    });
    await must(404, { path: `/applications/${revealing.id}/explain?token_id=unknown` });
    const blind = await make({ type: 'management', permissions: ['application:read'] });
    expect((await vault.call({ path: at, key: keyOf(blind) })).status).toBe(403);
    expect(await logOf({ entity_id: token.id, request: 'explainAccess' })).toHaveLength(1);
  });
});

describe('the vault as a whole', () => {
  it('is shown in an overview, with counts of the own tenant', async () => {
    const { must } = await signedIn();
    const overview = await must<ConsoleOverview>(200, { path: '/console/overview' });
    expect(overview.runs_waiting).toBe(0);
    expect(overview.projections.map(({ name }) => name)).toContain('log_summary');
    const from = new Date(Date.parse(overview.at) - 3_600_000).toISOString();
    const cards = overview.last_hour.find(
      ({ entity_type: type, operation }) => type === 'card' && operation === 'create',
    );
    const listed = await vault.must<{ pagination: { total_items: number } }>(200, {
      path: `/logs?size=0&entity_type=card&operation=create&start_date=${from}`,
      key: vault.managementKey,
    });
    expect(cards?.count).toBe(listed.pagination.total_items);
  });

  it('is operated by its first tenant: a projection is rebuilt, paused and resumed, without secrets in what is shown', async () => {
    const { call, must } = await signedIn();
    const state = () => must<VaultOperations>(200, { path: '/operations' });
    const { keys, settings, projections } = await state();
    expect(keys).toEqual({ root_keys: 1, is_root_rotating: false, tenants: 1, tenants_rotating: 0 });
    expect(JSON.stringify(settings)).not.toMatch(/postgres:|ROOT_KEY/);
    expect(projections.every(({ status }) => status === 'live')).toBe(true);
    const command = (name: string, action: string) =>
      call({ method: 'POST', path: `/operations/projections/${name}`, body: { action } });
    expect((await command('reactors', 'rebuild')).body).toMatchObject({ target: 'rebuild' });
    const isDone = async () => {
      const found = (await state()).projections.find(({ name }) => name === 'reactors');
      return found !== undefined && found.rebuild === undefined && found.status === 'live';
    };
    await waitUntil(isDone, { what: 'the rebuild', timeoutMs: 60_000 });
    expect((await command('alerts', 'pause')).body).toMatchObject({ target: 'live' });
    expect((await command('alerts', 'resume')).body).toMatchObject({ target: 'live' });
    expect((await command('alerts', 'resume')).status).toBe(409);
    expect((await command('applications', 'pause')).status).toBe(409);
    expect((await command('nothing', 'pause')).status).toBe(404);
    const told = await logOf({ entity_type: 'tenant', request: 'commandProjection' });
    expect(told.map(({ message }) => message)).toContain('Projection reactors: rebuild');
  });
});

describe('the pages', () => {
  it('are redirected to from the root, and have a policy that allows no other sources', async () => {
    const root = await fetch(vault.url, { redirect: 'manual' });
    expect([root.status, root.headers.get('location')]).toEqual([302, '/console/']);
    const page = await vault.call({ path: '/console/' });
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    const headers = ['referrer-policy', 'x-content-type-options', 'cache-control'];
    expect(headers.map((name) => page.headers.get(name))).toEqual(['no-referrer', 'nosniff', 'no-cache']);
    const script = /src="([^"]+)"/.exec(page.text)?.[1] ?? '';
    const asset = await vault.call({ path: new URL(script, `${vault.url}/console/`).pathname });
    expect([asset.status, asset.headers.get('content-encoding')]).toEqual([200, 'gzip']);
    expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect((await vault.call({ path: '/console/assets/none.js' })).status).toBe(404);
    expect((await vault.call({ path: '/console/..%2f..%2fpackage.json' })).status).toBe(404);
  });
});
