import { operations, type OpenApiDocument, type OperationId } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cookieOf, shownBy } from './console-browser.ts';
import { document, expectDocumented } from './openapi-document.ts';
import { startVault, type Call, type RunningVault } from './running-vault.ts';

describe('a running vault', () => {
  let vault: RunningVault;
  const seen = new Map<string, Set<number>>();
  const keys = { management: '', private: '', public: '' };

  beforeAll(async () => {
    vault = await startVault();
    keys.management = vault.managementKey;
  });
  afterAll(() => vault.stop());

  /** Calls an operation and checks the answer against the document. */
  async function check(
    id: OperationId,
    status: number,
    call: Partial<Call> = {},
  ): Promise<Record<string, unknown>> {
    const { method, path } = operations[id];
    const reply = await vault.call({ method, path, key: keys.management, ...call });
    expect(reply.status, `${id}: ${reply.text}`).toBe(status);
    expectDocumented(id, reply);
    seen.set(id, (seen.get(id) ?? new Set()).add(status));
    return reply.body as Record<string, unknown>;
  }

  it('answers as documented: applications', async () => {
    const names = {
      private: ['create', 'read', 'update', 'delete', 'search', 'use'],
      public: ['create'],
    } as const;
    for (const type of ['private', 'public'] as const) {
      const body = {
        name: type,
        type,
        permissions: names[type].map((verb) => `token:${verb}`),
        rules: [
          {
            description: 'r',
            priority: 1,
            container: '/PII/',
            transform: 'reveal',
            permissions: ['token:create'],
          },
        ],
        expires_at: '2100-01-01T00:00:00+02:00',
      };
      keys[type] = String((await check('createApplication', 201, { body })).key);
    }
    const { id } = await check('createApplication', 201, {
      body: { name: 'x', type: 'private', permissions: ['token:read'] },
    });
    const path = `/applications/${String(id)}`;
    await check('getApplication', 200, { path });
    await check('listApplications', 200, { path: `/applications?id=${String(id)}&type=private&size=1` });
    await check('updateApplication', 200, { path, body: { name: 'y', permissions: ['token:read'] } });
    await check('regenerateApplicationKey', 200, { path: `${path}/regenerate` });
    await check('regenerateApplicationKey', 200, { path: `${path}/regenerate?overlap=60` });
    const { id: keyId } = await check('createApplicationKey', 201, { path: `${path}/keys`, body: {} });
    await check('listApplicationKeys', 200, { path: `${path}/keys` });
    await check('getApplicationKey', 200, { path: `${path}/keys/${String(keyId)}` });
    await check('deleteApplicationKey', 204, { path: `${path}/keys/${String(keyId)}` });
    await check('deleteApplication', 204, { path });
    await check('getApplication', 404, { path });
    await check('getApplicationByKey', 200, { key: keys.private });
    await check('listPermissions', 200);
    await check('createApplication', 400, { body: { name: '' } });
    await check('createApplication', 403, { key: keys.private, body: { name: 'x' } });
    await check('listApplications', 400, { path: '/applications?size=101' });
    await check('getApplicationByKey', 401, { key: 'key_pvt_unknown' });
  });

  it('answers as documented: tokens', async () => {
    const key = keys.private;
    const data = { number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: '123' };
    const body = {
      id: 'my-token',
      type: 'card',
      data,
      metadata: { a: 'b' },
      search_indexes: ['{{ data.number | last4 }}'],
      fingerprint_expression: '{{ data.number }}',
      deduplicate_token: true,
      expires_at: '12/31/2099 1:00:00 PM +02:00',
    };
    await check('createToken', 201, { key, body });
    await check('createToken', 200, { key, body: { ...body, id: 'other' } });
    await check('createToken', 409, { key, body: { id: 'my-token', type: 'token', data: 1 } });
    await check('createToken', 413, { key, body: { type: 'token', data: 'x'.repeat(1_100_000) } });
    await check('getToken', 200, { key, path: '/tokens/my-token' });
    await check('getToken', 404, { key, path: '/tokens/not-there' });
    await check('listTokens', 200, { key, path: '/tokens?type=card&metadata.a=B' });
    await check('listTokens', 400, { key, path: '/tokens?page=0' });
    await check('searchTokens', 200, { key, body: { query: 'data:4242' } });
    await check('searchTokens', 400, { key, body: { query: 'data:(' } });
    await check('updateToken', 200, { key, path: '/tokens/my-token', body: { metadata: { a: 'c' } } });
    await check('updateToken', 415, {
      key,
      path: '/tokens/my-token',
      body: {},
      headers: { 'Content-Type': 'application/json' },
    });
    await check('tokenize', 200, { key, body: { a: { type: 'token', data: 1 }, b: [null, 'x'] } });
    await check('detokenize', 200, { key, body: { a: ['x {{ my-token }}'] } });
    await check('createTokens', 200, {
      key,
      body: { tokens: [{ id: 'batched', type: 'token', data: 1 }, 7] },
    });
    await check('deleteTokens', 200, { key, body: { ids: ['batched', 'not-there'] } });
    await check('detokenize', 400, { key, body: { a: '{{ my-token | nothing }}' } });
    await check('deleteToken', 204, { key, path: '/tokens/my-token' });
    await check('deleteToken', 404, { key, path: '/tokens/my-token' });
    await check('createToken', 403, { body });
    await check('createToken', 401, { key: 'nobody-has-this', body });
  });

  it('answers as documented: transactions', async () => {
    const key = keys.private;
    const open = async () => String((await check('createTransaction', 201, { key })).id);
    const first = await open();
    await check('commitTransaction', 200, { key, path: `/transactions/${first}/commit` });
    await check('commitTransaction', 409, { key, path: `/transactions/${first}/commit` });
    await check('rollbackTransaction', 200, { key, path: `/transactions/${await open()}/rollback` });
    await check('rollbackTransaction', 404, { key, path: `/transactions/${crypto.randomUUID()}/rollback` });
  });

  it('answers as documented: tenant, logs, sessions', async () => {
    await check('getTenant', 200);
    await check('updateTenant', 200, { body: { name: 'n', settings: { deduplicate_tokens: 'false' } } });
    await check('updateTenant', 400, { body: { settings: { a: 1 } } });
    await check('getUsageReport', 200);
    await check('listLogs', 200, { path: '/logs?entity_type=card&start_date=2020-01-01' });
    await check('listLogs', 403, { key: keys.private });
    await check('summarizeLogs', 200, { path: '/logs/summary?interval=day&group_by=operation' });
    await check('summarizeLogs', 400, { path: '/logs/summary' });
    await check('listEntityTypes', 200);
  });

  it('answers as documented: sessions', async () => {
    const { nonce } = await check('createSession', 201, { key: keys.public });
    const permissions = ['token:create'];
    await check('authorizeSession', 200, { key: keys.private, body: { nonce, permissions } });
    await check('authorizeSession', 409, { key: keys.private, body: { nonce, permissions } });
    await check('authorizeSession', 404, { key: keys.private, body: { nonce: 'unknown', permissions } });
    await check('createSession', 403, { key: keys.private });
  });

  it('answers as documented: reactors', async () => {
    const code = 'module.exports = async function (req) { return { raw: { sum: req.args.a + 1 } }; };';
    const body = { name: 'r', code, configuration: { A: 'b' } };
    const { id } = await check('createReactor', 201, { body });
    const path = `/reactors/${String(id)}`;
    await check('getReactor', 200, { path });
    await check('listReactors', 200, { path: '/reactors?name=r*' });
    await check('updateReactor', 200, { path, body: { ...body, name: 's' } });
    await check('patchReactor', 204, { path, body: { configuration: { A: null } } });
    await check('createReactor', 422, { body: { ...body, code: 'this is not code' } });
    await check('react', 403, { path: `${path}/react`, body: { args: { a: 1 } } });
    await check('react', 200, { key: keys.private, path: `${path}/react`, body: { args: { a: 1 } } });
    const callback_url = 'https://hooks.invalid/';
    await check('react', 202, {
      key: keys.private,
      path: `${path}/react`,
      body: { args: { a: 1 }, callback_url },
    });
    const { data } = (await check('listInvocations', 200)) as { data: { id: string; mode: string }[] };
    expect(data.map(({ mode }) => mode)).toEqual(['async', 'sync']);
    const [slow = '', quick = ''] = data.map(({ id: run }) => `/invocations/${run}`);
    await check('getInvocation', 200, { path: quick });
    await check('getInvocation', 404, { path: `/invocations/${String(id)}` });
    await check('redeliverInvocation', 409, { path: `${quick}/redeliver` });
    const isTried = async () =>
      String(JSON.stringify(await check('getInvocation', 200, { path: slow }))).includes('attempted_at');
    await waitUntil(isTried, { what: 'the first delivery' });
    await check('redeliverInvocation', 202, { path: `${slow}/redeliver` });
    await check('deleteReactor', 204, { path });
    await check('react', 404, { key: keys.private, path: `${path}/react`, body: {} });
    await check('getWebhookSecret', 200);
    await check('rotateWebhookSecret', 200);
  });

  it('answers as documented: proxies', async () => {
    const body = { name: 'p', destination: 'https://destination.invalid/v1/', require_auth: true };
    const { id } = await check('createProxy', 201, { body });
    const path = `/proxies/${String(id)}`;
    expect(await check('getProxy', 200, { path })).toMatchObject({
      destination: 'https://destination.invalid/v1',
    });
    await check('listProxies', 200, { path: '/proxies?name=p*' });
    const { data } = (await check('listApplications', 200)) as { data: { id: string; type: string }[] };
    const application = { id: data.find(({ type }) => type === 'private')?.id };
    await check('createProxyKey', 400, { path: `${path}/keys`, body: {} });
    await check('updateProxy', 200, { path, body: { ...body, application } });
    await check('patchProxy', 204, { path, body: { configuration: { A: 'b' } } });
    await check('createProxy', 422, { body: { ...body, request: { code: 'this is not code' } } });
    const { id: keyId } = await check('createProxyKey', 201, { path: `${path}/keys`, body: {} });
    await check('deleteProxyKey', 204, { path: `${path}/keys/${String(keyId)}` });
    await check('deleteProxyKey', 404, { path: `${path}/keys/${String(keyId)}` });
    await check('deleteProxy', 204, { path });
    await check('getProxy', 404, { path });
  });

  it('answers a repeated idempotency key with the first answer', async () => {
    const call = {
      key: keys.private,
      body: { type: 'token', data: 'once' },
      headers: { 'SVC-IDEMPOTENCY-KEY': 'once' },
    };
    const first = await check('createToken', 201, call);
    expect(await check('createToken', 201, call)).toEqual(first);
    await check('deleteToken', 204, { key: keys.private, path: `/tokens/${String(first.id)}` });
    await check('createToken', 404, call);
  });

  it('shows its document and a reference page without a key, all from itself', async () => {
    const served = await vault.call({ path: '/openapi.json' });
    expect(served.status).toBe(200);
    expect(Object.keys((served.body as OpenApiDocument).paths)).toEqual(Object.keys(document.paths));
    const page = await vault.call({ path: '/docs' });
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
    const links = [...page.text.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, link]) => link ?? '');
    expect(links).toHaveLength(3);
    for (const link of links) {
      expect(link).toMatch(/^\/docs\//);
      const asset = await vault.call({ path: link });
      expect([asset.status, asset.text.length > 100]).toEqual([200, true]);
    }
  });

  it('answers as documented: the console', async () => {
    const opened = await vault.call({ method: 'POST', path: '/console/session', key: keys.management });
    expectDocumented('openConsoleSession', opened);
    const cookie = cookieOf(opened);
    const headers = { Cookie: cookie, Origin: vault.url, ...shownBy(cookie) };
    seen.set('openConsoleSession', new Set([opened.status]));
    const byCookie = (id: OperationId, status: number, call: Partial<Call> = {}) =>
      check(id, status, { headers, key: '', ...call });
    await byCookie('getConsoleSession', 200);
    await byCookie('getConsoleOverview', 200);
    await byCookie('getAccessMatrix', 200);
    const { data } = await check('listApplications', 200);
    const [{ id: application }] = data as [{ id: string }];
    const made = await check('createToken', 201, { key: keys.private, body: { type: 'token', data: 'x' } });
    const path = `/applications/${application}/explain?token_id=${String(made.id)}`;
    await byCookie('explainAccess', 200, { path });
    await byCookie('verifyLog', 200);
    await check('deleteToken', 204, { key: keys.private, path: `/tokens/${String(made.id)}` });
    const certificate = `/tokens/${String(made.id)}/erasure-certificate`;
    const isErased = async () => (await vault.call({ path: certificate, headers })).status === 200;
    await waitUntil(isErased, { what: 'the keys of a deleted token' });
    await byCookie('getErasureCertificate', 200, { path: certificate });
    await byCookie('getVaultOperations', 200);
    await byCookie('commandProjection', 202, {
      path: '/operations/projections/alerts',
      body: { action: 'rebuild' },
    });
    await byCookie('endConsoleSession', 204);
    await byCookie('getConsoleSession', 401);
  });

  it('ends as documented, and every operation has succeeded by then', async () => {
    await check('deleteTenant', 204);
    await check('getTenant', 401);
    // test/e2e/proxy.e2e.test.ts and proxies.e2e.test.ts have another server to send to.
    const { proxy: _proxy, invokeProxy: _invokeProxy, ...others } = operations;
    const missing = Object.entries(others).filter(([id, { success }]) => !seen.get(id)?.has(success));
    expect(missing.map(([id]) => id)).toEqual([]);
  });
});
