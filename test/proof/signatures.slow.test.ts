import type { Token } from '@token-vault/contracts';
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
} from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

/** A caller of each kind that is signed, with the entities that they made. */
interface Signed {
  readonly applicationKey: string;
  readonly sessionKey: string;
  readonly managementKey: string;
  readonly id: string;
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
  const managementKey = vault.credentials.management_key;
  signed = { applicationKey, sessionKey, managementKey, id, idempotencyKey };
  await expectBelieved(vault);
});
afterAll(async () => {
  for (const directory of directories) await removeDataDirectory(directory);
});

const alterationsOf = async (running: StandaloneProcess): Promise<readonly string[]> =>
  (await metricsOf(running)).split('\n').filter((line) => line.startsWith('vault_altered_records_total'));

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

it('a row that was altered afterwards is refused, counted and written to the log with its tenant', async () => {
  const pool = createTestPool(await vault.databaseUrl());
  await pool.query('set search_path = rm_tokens; update token set signature = null');
  const client = vault.client(signed.applicationKey);
  const refused = await client.request('GET', `/tokens/${signed.id}`);
  await pool.end();
  expect(refused).toMatchObject({
    status: 500,
    body: { type: expect.stringMatching(/record-altered$/) as string },
  });
  expect(await alterationsOf(vault)).toEqual([
    expect.stringMatching(/^vault_altered_records_total\{.*kind="token".*\} 1$/) as string,
  ]);
  const told = vault
    .output()
    .split('\n')
    .filter((line) => line.includes('a stored record was altered and is refused'));
  expect(told).toHaveLength(1);
  expect(JSON.parse(told[0] ?? '')).toMatchObject({
    tenant_id: vault.credentials.tenant_id,
    component: 'token',
  });
  expect(told[0]).not.toContain(number);
});
