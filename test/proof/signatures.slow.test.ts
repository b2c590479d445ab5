import type { Proxy, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  createDataDirectory,
  createTestPool,
  loadLog,
  metricsOf,
  printed,
  removeDataDirectory,
  resultOf,
  revealingApplication,
  saveLog,
  startStandaloneProcess,
  type Client,
  type StandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

/** A caller of each kind that is signed, with the entities that they made. */
interface Signed {
  readonly applicationKey: string;
  readonly sessionKey: string;
  readonly managementKey: string;
  readonly id: string;
  readonly proxyId: string;
  /** The key of a request whose answer is stored. */
  readonly idempotencyKey: string;
}

const number = cardNumber();
const body = cardToken(number, { search_indexes: ['{{ data.number }}'] });
const directories: string[] = [];
let place: string;
let dataDir: string;
let vault: StandaloneProcess;
let signed: Signed;

async function newDirectory(): Promise<string> {
  const directory = await createDataDirectory();
  directories.push(directory);
  return directory;
}

async function makeApplication(manager: Client, application: object): Promise<string> {
  const made = await manager.expect<{ key: string }>(201, 'POST', '/applications', { body: application });
  return made.body.key;
}

async function openSession(manager: Client, authorizer: Client): Promise<string> {
  const key = await makeApplication(manager, {
    name: 'page',
    type: 'public',
    permissions: ['token:create'],
  });
  const opened = await manager
    .withKey(key)
    .expect<{ nonce: string; session_key: string }>(201, 'POST', '/sessions');
  const rule = {
    description: 'this card',
    priority: 1,
    conditions: [{ attribute: 'container', operator: 'starts_with', value: '/pci/' }],
    transform: 'reveal',
    permissions: ['token:read'],
  };
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const grant = { nonce: opened.body.nonce, rules: [rule], expires_at };
  await authorizer.expect(200, 'POST', '/sessions/authorize', { body: grant });
  return opened.body.session_key;
}

beforeAll(async () => {
  [place, dataDir] = [await newDirectory(), await newDirectory()];
  vault = await startStandaloneProcess({ dataDir });
  const manager = vault.client();
  const applicationKey = await makeApplication(manager, revealingApplication());
  const client = vault.client(applicationKey);
  const idempotencyKey = randomUUID();
  const headers = { 'SVC-IDEMPOTENCY-KEY': idempotencyKey };
  const { id } = (await client.expect<Token>(201, 'POST', '/tokens', { body, headers })).body;
  const sessionKey = await openSession(manager, client);
  const proxy = { name: 'p', destination: 'https://api.example.com' };
  const { id: proxyId } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: proxy })).body;
  const managementKey = vault.credentials.management_key;
  signed = { applicationKey, sessionKey, managementKey, id, proxyId, idempotencyKey };
  await expectBelieved(vault);
});
afterAll(async () => {
  for (const directory of directories) await removeDataDirectory(directory);
});

const alterationsOf = async (running: StandaloneProcess): Promise<readonly string[]> =>
  (await metricsOf(running)).split('\n').filter((line) => line.startsWith('vault_altered_records_total'));

async function countOf(running: StandaloneProcess, kind: string): Promise<number> {
  const counted = (await alterationsOf(running)).filter((line) => line.includes(`kind="${kind}"`));
  return counted.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

/** The lines of the log that tell of altered records. */
const linesOf = (running: StandaloneProcess) =>
  running
    .output()
    .split('\n')
    .filter((line) => line.includes('a stored record was altered and is refused'))
    .map((line) => JSON.parse(line) as { readonly tenant_id: string; readonly component: string });

/**
 * Each record is checked by an operation: tenant, application, session, token (as a row and as an event) and stored
 * answer.
 */
async function expectBelieved(running: StandaloneProcess): Promise<void> {
  const client = running.client(signed.applicationKey);
  for (const key of [signed.applicationKey, signed.sessionKey]) {
    const read = await running.client(key).expect<Token>(200, 'GET', `/tokens/${signed.id}`);
    expect(read.body.data).toMatchObject({ number });
  }
  const query = { query: `data:${number}` };
  const found = await client.expect<{ data: Token[] }>(200, 'POST', '/tokens/search', { body: query });
  expect(found.body.data.map(({ id }) => id)).toEqual([signed.id]);
  const headers = { 'SVC-IDEMPOTENCY-KEY': signed.idempotencyKey };
  const repeated = await client.expect<Token>(201, 'POST', '/tokens', { body, headers });
  expect(repeated.body).toMatchObject({ id: signed.id, data: { number } });
  // A change requires a signed state, and is signed itself.
  const change = { metadata: { step: randomUUID() } };
  const changed = await client.expect<Token>(200, 'PATCH', `/tokens/${signed.id}`, { body: change });
  expect(changed.body).toMatchObject(change);
  const settings = { name: 'Acme', settings: { step: randomUUID() } };
  await running.client(signed.managementKey).expect(200, 'PUT', '/tenants/self', { body: settings });
  expect(await alterationsOf(running)).toEqual([]);
}

async function restart(): Promise<void> {
  await vault.stop();
  vault = await startStandaloneProcess({ dataDir });
}

describe('a signed record is accepted', () => {
  it('after the keys of the tenant and the root key are rotated, and a restart', async () => {
    await resultOf(dataDir, 'keys', 'rotate-tenant', vault.credentials.tenant_id);
    await expectBelieved(vault);
    await resultOf(dataDir, 'keys', 'rotate-root');
    await restart();
    await expectBelieved(vault);
  });

  it('after all read models are rebuilt', async () => {
    await resultOf(dataDir, 'projections', 'rebuild', '--all');
    await expectBelieved(vault);
    await resultOf(dataDir, 'audit', 'verify');
  });

  it('after a backup is restored elsewhere', async () => {
    const [backup, log] = [path.join(place, 'backup'), path.join(place, 'log')];
    await saveLog(dataDir, log);
    await resultOf(dataDir, 'backup', 'create', backup);
    const target = await newDirectory();
    await copyFile(path.join(dataDir, 'root.key'), path.join(target, 'root.key'));
    await loadLog(target, log);
    await resultOf(target, 'backup', 'restore', backup);
    const restored = await startStandaloneProcess({ dataDir: target });
    await expectBelieved(restored);
    await resultOf(target, 'audit', 'verify');
    await restored.stop();
  });
});

it('a token that another vault imports is signed again, with the key of its own tenant', async () => {
  const file = path.join(place, 'recipient');
  await resultOf(place, 'transfer', 'keygen', file);
  const from = [vault.credentials.tenant_id, '--recipient', `${file}.pub`];
  const exported = path.join(place, 'exported');
  await resultOf(dataDir, 'export', ...from, '--application', signed.applicationKey, '--to', exported);
  const target = await newDirectory();
  const other = await startStandaloneProcess({ dataDir: target });
  const output = await resultOf(target, 'import', other.credentials.tenant_id, exported, '--identity', file);
  expect(printed(output, 'imported')).toBe('1');
  const client = other.client(await makeApplication(other.client(), revealingApplication()));
  const read = await client.expect<Token>(200, 'GET', `/tokens/${signed.id}`);
  expect(read.body.data).toMatchObject({ number });
  await client.expect(200, 'PATCH', `/tokens/${signed.id}`, { body: { metadata: { step: '1' } } });
  expect(await alterationsOf(other)).toEqual([]);
  await other.stop();
});

describe('a row that was altered afterwards is refused, counted and written to the log with its tenant', () => {
  let pool: Pool;
  let cookie: string;
  const refusedKinds = new Set<string>();
  const ask = (key: string, ...request: Parameters<Client['request']>) =>
    vault.client(key).request(...request);
  const askConsole = () => {
    const headers = { Cookie: cookie, 'SVC-CONSOLE-SESSION': cookie.split(/[=.]/)[1] ?? '' };
    return ask('', 'GET', '/tenants/self', { key: null, headers });
  };
  const repeat = () => {
    const headers = { 'SVC-IDEMPOTENCY-KEY': signed.idempotencyKey };
    return ask(signed.applicationKey, 'POST', '/tokens', { body, headers });
  };

  beforeAll(async () => {
    pool = createTestPool(await vault.databaseUrl());
    const { headers } = await vault.client(signed.managementKey).expect(201, 'POST', '/console/session');
    cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(await askConsole()).toMatchObject({ status: 200 });
  });
  afterAll(() => pool.end());

  // The tenant is the last, because every request needs its row.
  it.each([
    ['answer', `idempotency.answer set answer = answer || '{"status":200}'`, repeat],
    [
      'proxy',
      'rm_proxies.proxy set require_auth = false',
      () => ask(signed.managementKey, 'GET', `/proxies/${signed.proxyId}`),
    ],
    [
      'token',
      'rm_tokens.token set signature = null',
      () => ask(signed.applicationKey, 'GET', `/tokens/${signed.id}`),
    ],
    ['console session', `rm_applications.console_session set ends_at_text = '2100-01-01'`, askConsole],
    [
      'session',
      `rm_applications.session set rules = '[]'`,
      () => ask(signed.sessionKey, 'GET', `/tokens/${signed.id}`),
    ],
    [
      'application',
      `rm_applications.application set rules = '[]' where type = 'private'`,
      () => ask(signed.applicationKey, 'GET', `/tokens/${signed.id}`),
    ],
    [
      'tenant',
      `rm_tenants.tenant set settings = '{}'`,
      () => ask(signed.managementKey, 'GET', '/tenants/self'),
    ],
  ])('%s', async (kind, change, request) => {
    // The trigger that counts tokens names no schema.
    await pool.query(`set search_path = rm_tokens; update ${change}`);
    // Callers are known for a second.
    await waitUntil(async () => (await request()).status === 500, { what: 'the refusal' });
    const refused = await request();
    expect(refused.body).toMatchObject({ type: expect.stringMatching(/record-altered$/) as string });
    const told = () => linesOf(vault).filter(({ component }) => component === kind);
    await waitUntil(() => told().length >= 2, { what: 'a line in the log for each refusal' });
    for (const line of told()) expect(line).toMatchObject({ tenant_id: vault.credentials.tenant_id });
    expect(JSON.stringify(told())).not.toContain(number);
    refusedKinds.add(kind);
  });

  it('each refusal once, by its kind', async () => {
    expect(refusedKinds.size).toBe(7);
    // The vault reads some of these rows by itself, too, so both are counted at one time. Metrics are computed once a second.
    const countWithoutLine = async (kind: string) => {
      const count = await countOf(vault, kind);
      return [kind, count - linesOf(vault).filter(({ component }) => component === kind).length] as const;
    };
    await expect
      .poll(() => Promise.all([...refusedKinds].map(countWithoutLine)), { timeout: 20_000 })
      .toEqual([...refusedKinds].map((kind) => [kind, 0]));
  });
});
