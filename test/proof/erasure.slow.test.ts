import {
  eventRegistry,
  newId,
  streams,
  newEvent,
  TokenCreated,
  type Application,
  type Reactor,
  type Token,
} from '@token-vault/contracts';
import { runningPostgres } from '@token-vault/embedded-postgres';
import { createKeyRing, fileRootKey, seal, secret, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { systemClock } from '@token-vault/operations';
import {
  cardNumber,
  cardToken,
  createDataDirectory,
  createTestPool,
  plainApplication,
  printed,
  removeDataDirectory,
  resultOf,
  revealingApplication,
  startStandaloneProcess,
  waitUntil,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import path from 'node:path';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { dumpTables, searchFiles, searchTables, tracesOf } from '../e2e/traces.ts';
import { attack } from './attack.ts';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

/** A canary for each way to store a value. All but the last are erased. */
const canaries = {
  deleted: cardNumber(),
  person: cardNumber(),
  plain: cardNumber(),
  arguments: cardNumber(),
  expired: cardNumber(),
  cvc: cardNumber(),
  tenant: cardNumber(),
  alive: cardNumber(),
};
type Canary = keyof typeof canaries;
const erased = Object.keys(canaries).filter((name) => name !== 'alive') as Canary[];
/** Put into a place that is not secret, so that the search of files must find it. */
const planted = cardNumber('5');

/** Long enough to copy the keys before the sweeper destroys them. */
const dueMs = 20_000;

let dataDir: string;
let vault: StandaloneProcess;
let pool: Pool;
let log: EventStore;
let client: Client;
let backend: Client;
let doomed: Client;
const ids: Partial<Record<Canary, string>> = {};

/** The rows of keys as they were before anything was erased. */
const copied = ['data_key', 'tenant_key', 'tenant_index_key'] as const;

const newToken = async (canary: Canary, body: object, by = client): Promise<string> => {
  const headers = { 'SVC-IDEMPOTENCY-KEY': `make ${canary}` };
  const id = (await by.expect<Token>(201, 'POST', '/tokens', { body, headers })).body.id;
  ids[canary] = id;
  return id;
};

async function makeClients(manager: Client): Promise<{ settlement: Client; backend: Client }> {
  const make = async (body: object) => {
    const { key = '' } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
    return manager.withKey(key);
  };
  return {
    settlement: await make(revealingApplication()),
    backend: await make(plainApplication({ permissions: ['token:create', 'token:read', 'token:use'] })),
  };
}

/** The reactor is given the canary and the token, and answers with both. */
async function invoke(manager: Client, by: Client, tokenId: string, canary: string): Promise<void> {
  const code = 'module.exports = async (req) => ({ raw: req.args });';
  const reactor = { name: 'echo', configuration: { SECRET: canary }, code };
  const headers = { 'SVC-IDEMPOTENCY-KEY': `echo ${canary}` };
  const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body: reactor, headers })).body;
  const args = { literal: canary, token: `{{ ${tokenId} }}` };
  const run = await by.expect(200, 'POST', `/reactors/${id}/react`, { body: { args }, headers });
  expect(run.text).toContain(canary);
  await manager.expect(200, 'PUT', `/reactors/${id}`, { body: reactor, headers });
  await manager.expect(204, 'DELETE', `/reactors/${id}`);
}

/** Instead of waiting for the hour of a cvc, the log gets a card that was made almost an hour ago. */
async function appendCardWithDueCvc(keyRing: KeyRing): Promise<void> {
  const tenantId = vault.credentials.tenant_id;
  const tokenId = newId();
  const end = new Date(Date.now() + dueMs);
  const sealed = async (field: 'data' | 'cvc', value: string) => {
    const place = { tenantId, entity: `token:${tokenId}` };
    const ends = field === 'cvc' ? { destroyAfter: end } : {};
    const { key, stored } = await keyRing.createDataKey({ ...place, purpose: field, ...ends });
    await stored;
    return seal(key, { ...place, field }, secret(value));
  };
  const data = {
    token_id: tokenId,
    token_type: 'card',
    data: await sealed('data', 'of no interest'),
    cvc: await sealed('cvc', canaries.cvc),
    cvc_expires_at: end.toISOString(),
    containers: ['/pci/high/'],
  };
  const metadata = {
    tenant_id: tenantId,
    actor: { kind: 'system', id: 'test' } as const,
    trace_id: 'test',
    correlation_id: 'test',
    occurred_at: new Date().toISOString(),
  };
  const event = newEvent(TokenCreated, data, { id: newId(), metadata });
  await log.append(streams.token(tenantId, tokenId), [event], 'no-stream');
  ids.cvc = tokenId;
}

const keysOf = async (entity: string): Promise<number> =>
  (await pool.query('select from key_ring.data_key where entity = $1', [entity])).rowCount ?? 0;

const ourKeyRing = async (keys = pool) =>
  createKeyRing({
    pool: keys,
    rootKey: await fileRootKey(path.join(dataDir, 'root.key')),
    clock: systemClock,
    durability: 'own',
  });

/** With the rights of the vault, who may not do what `pool` does. */
async function poolOfVault(): Promise<Pool> {
  const running = await runningPostgres(path.join(dataDir, 'postgres'));
  return createTestPool((running.kind === 'supervised' && running.url) || 'none');
}

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  const connectionString = await vault.databaseUrl();
  pool = createTestPool(connectionString);
  const { eventStoreUrl } = vault;
  log = eventStoreUrl
    ? createEventStoreDbEventStore({ registry: eventRegistry, connectionString: eventStoreUrl })
    : createPostgresEventStore({ registry: eventRegistry, connection: { connectionString } });
  const manager = vault.client();
  ({ settlement: client, backend } = await makeClients(manager));

  const number = canaries.deleted;
  const card = cardToken(number, {
    search_indexes: ['{{ data.number }}', '{{ data.number | last4 }}'],
    fingerprint_expression: '{{ data.number }}',
    metadata: { planted },
  });
  const cardId = await newToken('deleted', card);
  await newToken('person', { type: 'token', data: { name: 'Jo', note: `ssn ${canaries.person}` } });
  await newToken('plain', { type: 'token', data: canaries.plain });
  await newToken('alive', cardToken(canaries.alive));
  await client.expect(200, 'PATCH', `/tokens/${cardId}`, {
    body: { data: { expiration_month: 3, cvc: '123' } },
    headers: { 'SVC-IDEMPOTENCY-KEY': 'change' },
  });
  await client.expect(200, 'GET', '/tokens');
  await client.expect(200, 'POST', '/tokens/search', { body: { query: `data:${number}` } });
  await invoke(manager, backend, cardId, canaries.arguments);

  const created = await resultOf(dataDir, 'tenants', 'create', 'Doomed', '--plan', 'enterprise');
  doomed = manager.withKey(printed(created, 'management key'));
  const theirs = await makeClients(doomed);
  const theirId = await newToken('tenant', cardToken(canaries.tenant), theirs.settlement);
  await invoke(doomed, theirs.backend, theirId, canaries.tenant);

  await appendCardWithDueCvc(await ourKeyRing());
  const expires_at = new Date(Date.now() + dueMs).toISOString();
  await newToken('expired', cardToken(canaries.expired, { expires_at }));
  // The planner's statistics must not keep values that the tables have lost.
  await pool.query('analyze');
  // Nothing is due yet. In production such a copy of keys must not exist.
  await pool.query('create schema before');
  for (const table of copied)
    await pool.query(`create table before.${table} as select * from key_ring.${table}`);
  const kept = await attackAll();
  expect([...kept.canaries].toSorted()).toEqual(Object.keys(canaries).toSorted());
});
afterAll(async () => {
  await log.close();
  await pool.end();
  await removeDataDirectory(dataDir);
});

const attackAll = () => attack({ pool, dataDir, log }, canaries);

/** Puts the copied rows back. No process removes them meanwhile. */
async function putBack(): Promise<void> {
  await pool.query(
    `create function before.keep() returns trigger language plpgsql as 'begin return null; end'`,
  );
  for (const table of copied) {
    await pool.query(
      `create trigger keep before delete on key_ring.${table} for each row execute function before.keep()`,
    );
    await pool.query(`insert into key_ring.${table} select * from before.${table} on conflict do nothing`);
  }
}

async function takeAwayAgain(): Promise<void> {
  for (const table of copied) await pool.query(`drop trigger keep on key_ring.${table}`);
  await pool.query('delete from key_ring.data_key where id not in (select id from before.left_after)');
}

describe('erased data', () => {
  it('is erased by deletion, by expiry, by the purge of a cvc and by the deletion of a tenant', async () => {
    for (const canary of ['deleted', 'person', 'plain'] as const)
      await client.expect(204, 'DELETE', `/tokens/${ids[canary]}`);
    await doomed.expect(204, 'DELETE', '/tenants/self');
    for (const canary of ['deleted', 'person', 'plain', 'expired'] as const)
      for (const entity of [`token:${ids[canary]}`, `answer-of-token:${ids[canary]}`])
        await waitUntil(async () => (await keysOf(entity)) === 0, {
          timeoutMs: 120_000,
          what: `no key of ${entity}`,
        });
    // The key of the other card data stays.
    const cvcIsGone = async () => (await keysOf(`token:${ids.cvc}`)) === 1;
    await waitUntil(cvcIsGone, { timeoutMs: 120_000, what: 'the purge of the cvc' });
  });

  it('stays in answers of reactors until they expire', async () => {
    const { canaries: found, found: how } = await attackAll();
    expect([...found].toSorted()).toEqual(['alive', 'arguments', 'deleted']);
    for (const line of how.filter((each) => !each.startsWith('alive')))
      expect(line).toMatch(/: outcome_with_tokens of invocation:/);
    // The hour is over, so the sweeper destroys the key.
    await pool.query(`update key_ring.data_key set destroy_after = now() where entity like 'invocation:%'`);
    const isSwept = async () =>
      (await pool.query(`select from key_ring.data_key where entity like 'invocation:%'`)).rowCount === 0;
    await waitUntil(isSwept, { timeoutMs: 120_000, what: 'the end of the outcomes' });
  });

  it('is opened by none of the remaining keys, at any place of a ciphertext', async () => {
    const { keys, ciphertexts, found, canaries: names } = await attackAll();
    expect(keys).toBeGreaterThanOrEqual(3);
    expect(ciphertexts).toBeGreaterThan(15);
    expect(found.filter((each) => !each.startsWith('alive'))).toEqual([]);
    // The attack works: it finds the canary that was not erased.
    expect([...names]).toEqual(['alive']);
  });

  it('has left no wrapped key in any table or catalog, the statistics of the planner included', async () => {
    const { rows: destroyed } = await pool.query<{ wrapped: string }>(
      `select encode(b.wrapped, 'hex') as wrapped from before.data_key b
       where not exists (select from key_ring.data_key d where d.id = b.id)`,
    );
    expect(destroyed.length).toBeGreaterThan(5);
    const places: string[] = [];
    for (const [table, rows] of await dumpTables(pool))
      if (!table.startsWith('before.') && destroyed.some(({ wrapped }) => rows.includes(wrapped)))
        places.push(table);
    expect(places).toEqual([]);
  });

  it('is in plain text in no table and no file, WAL included', async () => {
    const formsOf = (number: string) =>
      tracesOf(number).filter(({ form }) => /^(joined by ""|UTF-16|hex|base64)/.test(form));
    const traces = erased.flatMap((name) => formsOf(canaries[name]));
    expect(await searchTables(pool, traces)).toEqual([]);
    await pool.query('checkpoint');
    expect(await searchFiles(dataDir, traces)).toEqual([]);
    const seen = (await searchFiles(dataDir, formsOf(planted))).join('\n');
    expect(seen).toMatch(/pg_wal\/\w+: joined by ""/);
  });

  it('can be certified', async () => {
    for (const canary of ['deleted', 'person', 'plain', 'expired'] as const) {
      const certificate = await resultOf(dataDir, 'erasure', 'certificate', ids[canary] ?? '');
      expect(JSON.parse(certificate)).toMatchObject({ token_id: ids[canary] });
    }
  });
});

describe('the proof itself', () => {
  it('finds keys that were not destroyed', async () => {
    await pool.query('create table before.left_after as select id from key_ring.data_key');
    await putBack();
    const { canaries: names } = await attackAll();
    expect([...names].toSorted()).toEqual(Object.keys(canaries).toSorted());
  });

  it('finds no data again after their destruction', async () => {
    await takeAwayAgain();
    expect([...(await attackAll()).canaries]).toEqual(['alive']);
  });
});

describe('the files of the database', () => {
  it('have no destroyed key outside the WAL once the tables were rewritten', async () => {
    const { rows: destroyed } = await pool.query<{ id: string; wrapped: Buffer }>(
      `select b.id, b.wrapped from before.data_key b where not exists (select from key_ring.data_key d where d.id = b.id)`,
    );
    const forms = destroyed.map(({ id, wrapped }) => ({ form: id, bytes: wrapped }));
    await pool.query('checkpoint');
    // The copy of this test is one: the search works.
    expect((await searchFiles(dataDir, forms)).filter(isOutsideWal)).not.toEqual([]);
    await pool.query('drop schema before cascade');
    const ofVault = await poolOfVault();
    await (await ourKeyRing(ofVault)).vacuumDestroyed({ rewrite: true });
    await ofVault.end();
    await pool.query('checkpoint');
    expect((await searchFiles(dataDir, forms)).filter(isOutsideWal)).toEqual([]);
  });
});

const isOutsideWal = (place: string): boolean => !place.includes('pg_wal/');
