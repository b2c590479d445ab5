import type { AccessMatrix, ConsoleOverview, Explanation, VaultOperations } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { everyTokenPermission, keyOf, useConsole } from './console-vault.ts';
import type { Call } from './running-vault.ts';

const { vault, revealing, token, number, make, signedIn, logOf } = useConsole();

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
