import path from 'node:path';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import type { Application, LogEntry, Reactor, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  resultOf,
  refusalOf,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isSigned, startReceiver, type Receiver } from './receiver.ts';

interface Problem {
  readonly detail: string;
  readonly errors?: Readonly<Record<string, readonly string[]>>;
}

const env = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };
const number = cardNumber();
const asked = 'A rule requires a reason for this access: send it in the header SVC-REASON.';
const because = (reason: string) => ({ 'SVC-REASON': reason });

let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;
let managementKey: string;
let receiver: Receiver;
let secret: string;
let card: Token;
let strict: { id: string; key: string; client: Client };
let glass: { id: string; key: string; client: Client };

async function caller(rule: object) {
  const rules = [
    {
      priority: 1,
      container: '/pci/',
      transform: 'reveal',
      permissions: ['token:read', 'token:search', 'token:use', 'token:create'],
      ...rule,
    },
  ];
  const body = { name: 'caller', type: 'private', permissions: ['token:read'], rules };
  const made = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { id: made.id, key: made.key ?? '', client: manager.withKey(made.key ?? '') };
}

async function reactor(code: string, applicationId?: string): Promise<string> {
  const application = applicationId === undefined ? {} : { application: { id: applicationId } };
  const body = {
    name: 'r',
    code: `module.exports = async (req) => { ${code} };`,
    configuration: {},
    ...application,
  };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

async function logOf(filters: Readonly<Record<string, string>>): Promise<readonly LogEntry[]> {
  const query = new URLSearchParams({ size: '100', ...filters }).toString();
  return (await manager.expect<{ data: LogEntry[] }>(200, 'GET', `/logs?${query}`)).body.data;
}

beforeAll(async () => {
  receiver = await startReceiver();
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, env });
  managementKey = vault.credentials.management_key;
  manager = vault.client();
  const settings = { security_webhook_url: receiver.url, proxy_destinations: 'https://127.0.0.1:1' };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
  secret = (await manager.expect<{ secret: string }>(200, 'GET', '/tenants/self/webhook-secret')).body.secret;
  strict = await caller({ reason: 'required' });
  glass = await caller({ break_glass: true });
  card = (await strict.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
});
afterAll(async () => {
  await vault.stop();
  await receiver.close();
  await removeDataDirectory(dataDir);
});
beforeEach(() => (receiver.deliveries as unknown[]).splice(0));

const search = { body: { query: 'type:card' } };
const use = (id: string) => ({ args: { card: `{{ ${id} }}` } });

describe('a rule that requires a reason', () => {
  it.each([
    ['getToken', 'GET', () => `/tokens/${card.id}`, () => ({})],
    ['listTokens', 'GET', () => '/tokens', () => ({})],
    ['searchTokens', 'POST', () => '/tokens/search', () => search],
  ])('refuses %s without one, and shows data with one', async (request, method, at, options) => {
    const trace = `reason-${request}`;
    const headers = { 'SVC-TRACE-ID': trace };
    const refused = await strict.client.request<Problem>(method, at(), { ...options(), headers });
    expect([refused.status, refused.body.detail]).toEqual([403, asked]);
    expect(await logOf({ trace_id: trace })).toMatchObject([{ operation: 'denied', request }]);
    const reason = `ticket 77: ${request}, größer`;
    // `fetch` sends Latin-1: these are the bytes of UTF-8.
    const sent = { ...headers, ...because(Buffer.from(reason).toString('latin1')) };
    const answer = await strict.client.expect(200, method, at(), { ...options(), headers: sent });
    expect(answer.text).toContain(number);
    const found = await logOf({ reason });
    expect(found).toMatchObject([{ entity_id: card.id, transform: 'reveal', request, reason }]);
    expect(receiver.deliveries).toEqual([]);
  });

  it('does not require one when nothing is read', async () => {
    const made = await strict.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() });
    expect(made.body.id).toBeTruthy();
  });

  it('holds in reactors: for the arguments, for the requests of the code, for repeats and in the queue', async () => {
    const echo = await reactor('return { raw: req.args };');
    const reads = await reactor(`return { raw: await req.svc.tokens.retrieve('${card.id}') };`, strict.id);
    const path = `/reactors/${echo}/react`;
    const body = use(card.id);
    const refused = await strict.client.request<Problem>('POST', path, { body });
    expect([refused.status, refused.body.detail]).toEqual([403, asked]);
    const byCode = await strict.client.request<Problem>('POST', `/reactors/${reads}/react`, { body: {} });
    expect([byCode.status, byCode.text.includes(number)]).not.toEqual([200, true]);
    const headers = { ...because('for the run'), 'SVC-IDEMPOTENCY-KEY': 'reason-repeat' };
    await strict.client.expect(200, 'POST', path, { body, headers });
    const repeated = { body, headers: { 'SVC-IDEMPOTENCY-KEY': 'reason-repeat' } };
    const repeat = await strict.client.request<Problem>('POST', path, repeated);
    expect([repeat.status, repeat.body.detail]).toEqual([403, asked]);
    const inCode = { body: {}, headers: because('for the code') };
    const seen = await strict.client.expect(200, 'POST', `/reactors/${reads}/react`, inCode);
    expect(seen.text).toContain(number);
    expect(await logOf({ reason: 'for the code', operation: 'read' })).toMatchObject([
      { entity_id: card.id },
    ]);
    expect(await logOf({ reason: 'for the run', operation: 'use' })).toMatchObject([{ entity_id: card.id }]);
    const queued = { body: { ...body, callback_url: receiver.url }, headers: because('for the queue') };
    await strict.client.expect(202, 'POST', path, queued);
    await waitUntil(() => receiver.deliveries.length === 1, { what: 'the result' });
    expect(receiver.deliveries[0]?.text).toContain(number);
    expect(await logOf({ reason: 'for the queue', operation: 'use' })).toMatchObject([
      { entity_id: card.id },
    ]);
  });

  it('holds in the proxy', async () => {
    const headers = { 'SVC-PROXY-URL': 'https://127.0.0.1:1/' };
    const body = { card: `{{ ${card.id} }}` };
    const refused = await strict.client.request<Problem>('POST', '/proxy', { body, headers });
    expect([refused.status, refused.text.includes('SVC-REASON')]).toEqual([403, true]);
  });

  it('holds in the export of the command line', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'vault-reason-'));
    const tenantId = card.tenant_id;
    const key = path.join(folder, 'key');
    await resultOf(dataDir, 'transfer', 'keygen', key);
    const flags = ['--recipient', `${key}.pub`, '--application', strict.id, '--to', path.join(folder, 'out')];
    expect(await refusalOf(dataDir, 'export', tenantId, ...flags)).toContain('--reason');
    await resultOf(dataDir, 'export', tenantId, ...flags, '--reason', 'we move out');
    expect((await readFile(path.join(folder, 'out'))).length).toBeGreaterThan(0);
    expect(await logOf({ reason: 'we move out', entity_id: card.id })).toMatchObject([
      { operation: 'export' },
    ]);
    await rm(folder, { recursive: true });
  });

  it.each([
    ['x'.repeat(201), 'must have at most 200 characters'],
    ['a\tb', 'must not have control characters'],
    ['card 4242 4242 4242 4242', 'must not have what could be a card number'],
    ['card 4242 - 4242 - 4242 - 4242', 'must not have what could be a card number'],
    [
      Buffer.from(`card \u0664\u0662${'\u0664'.repeat(12)}`).toString('latin1'),
      'must not have what could be a card number',
    ],
    ['...', 'must have a letter or a digit'],
  ])('does not take %o for a reason', async (reason, message) => {
    const answer = await strict.client.request<Problem>('GET', `/tokens/${card.id}`, {
      headers: because(reason),
    });
    expect([answer.status, answer.body.errors]).toEqual([400, { 'SVC-REASON': [message] }]);
  });
});

describe('a rule with break_glass', () => {
  const read = (headers: Record<string, string> = {}) =>
    glass.client.expect<Token>(200, 'GET', `/tokens/${card.id}`, { headers });

  it('masks without a reason and sends no webhook', async () => {
    expect((await read()).text).not.toContain(number);
    const page = await glass.client.expect(200, 'POST', '/tokens/search', search);
    expect(page.text).not.toContain(number);
    await read(because('so that a webhook follows'));
    await waitUntil(() => receiver.deliveries.length > 0, { what: 'the webhook' });
    expect(receiver.deliveries).toHaveLength(1);
  });

  it('reveals with a reason, and the signed webhook names the token, the actor and the reason, without data', async () => {
    receiver.plan(500);
    const answer = await read({ ...because('fire'), 'SVC-TRACE-ID': 'glass-1' });
    expect(answer.text).toContain(number);
    await waitUntil(() => receiver.deliveries.length === 2, {
      what: 'the second attempt',
      timeoutMs: 20_000,
    });
    const [first, second] = receiver.deliveries;
    if (!first || !second) throw new Error('no delivery');
    expect(first.headers['webhook-id']).toBe(second.headers['webhook-id']);
    expect(isSigned(second, secret)).toBe(true);
    expect(JSON.parse(second.text)).toEqual({
      type: 'break_glass',
      id: second.headers['webhook-id'],
      operation: 'read',
      tenant_id: card.tenant_id,
      actor_id: glass.id,
      actor_type: 'application',
      application_id: glass.id,
      reason: 'fire',
      request: 'getToken',
      trace_id: 'glass-1',
      tokens: [{ id: card.id, type: 'card' }],
      created_at: expect.any(String) as string,
    });
    await waitUntil(async () => (await logOf({ trace_id: 'glass-1', operation: 'invoke' })).length === 2, {
      what: 'the record of the delivery',
    });
    const messages = (await logOf({ trace_id: 'glass-1', operation: 'invoke' })).map(
      ({ message }) => message,
    );
    expect(messages).toEqual(['Security webhook delivered', 'Security webhook attempt failed']);
  });

  it('is reported when a reactor uses the token, and the run needs a reason', async () => {
    const echo = await reactor('return { raw: 1 };');
    const at = `/reactors/${echo}/react`;
    expect((await glass.client.request('POST', at, { body: use(card.id) })).status).toBe(403);
    await glass.client.expect(200, 'POST', at, { body: use(card.id), headers: because('charge') });
    await waitUntil(() => receiver.deliveries.length === 1, { what: 'the webhook' });
    expect(receiver.deliveries[0]?.text).toContain('"operation":"use"');
  });

  it('is reported after a crash', async () => {
    await receiver.close();
    await read(because('before the crash'));
    await vault.kill();
    receiver = await startReceiver();
    vault = await startStandaloneProcess({ dataDir, env });
    manager = vault.client(managementKey);
    const settings = { security_webhook_url: receiver.url };
    await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
    const told = () => receiver.deliveries.some(({ text }) => text.includes('before the crash'));
    await waitUntil(told, { what: 'the webhook after the crash', timeoutMs: 60_000 });
  });
});
