import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { streams, type Application, type Reactor, type Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  revealingApplication,
  startStandaloneProcess,
  waitUntil,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { createHash, randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { startReceiver, type Receiver } from './receiver.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** The number of asynchronous runs of a tenant at once. */
const places = 3;
const env = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };
const altered = { status: 500, body: { type: expect.stringMatching(/record-altered$/) as string } };

let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;
let victim: Client;
let database: pg.Client;
let receivers: Receiver[];
let number: string;
let card: string;
let tenantId: string;

/** An attacker who can write to the database can disable triggers. */
async function connect(): Promise<void> {
  database = new pg.Client(await vault.databaseUrl());
  await database.connect();
  await database.query('set session_replication_role = replica');
}

async function receiver(): Promise<Receiver> {
  const made = await startReceiver();
  receivers.push(made);
  return made;
}

async function makeApplication(
  body: object = plainApplication({ permissions: ['token:create', 'token:use'] }),
) {
  const made = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { id: made.id, client: manager.withKey(made.key ?? '') };
}

async function makeReactor(code: string, configuration: object = {}): Promise<string> {
  const body = { name: 'r', configuration, code };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

const kept = 'module.exports = async () => ({ raw: "done" });';
const shows = 'module.exports = async (req) => ({ raw: req.args });';

beforeAll(async () => {
  receivers = [];
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, env });
  tenantId = vault.credentials.tenant_id;
  manager = vault.client();
  victim = (await makeApplication()).client;
  await connect();
});
beforeEach(async () => {
  number = cardNumber();
  card = (await victim.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body.id;
});
afterAll(async () => {
  await database.end();
  await Promise.all(receivers.map((each) => each.close()));
  await removeDataDirectory(dataDir);
});

const alterEvent = (stream: string, type: string, data: object) =>
  database.query(
    `update event_store.event set data = (data::jsonb || $3::jsonb)::json where stream = $1 and type = $2`,
    [stream, type, JSON.stringify(data)],
  );
const react = (id: string, client = victim, headers = {}) =>
  client.request('POST', `/reactors/${id}/react`, { body: { args: { card: `{{ ${card} }}` } }, headers });

describe('an attacker that writes the database without the root key', () => {
  it('cannot run exchanged code with the plaintext of others', async () => {
    const id = await makeReactor(kept);
    await alterEvent(streams.reactor(tenantId, id), 'ReactorCreated', { code: shows });
    expect(await react(id)).toMatchObject(altered);
    const patched = await manager.request('PATCH', `/reactors/${id}`, { body: { name: 'mended' } });
    expect(patched).toMatchObject(altered);
    expect(await manager.request('DELETE', `/reactors/${id}`)).toMatchObject({ status: 204 });
  });

  it('cannot make a reactor act as another application', async () => {
    const { id: other } = await makeApplication();
    const id = await makeReactor(kept);
    await alterEvent(streams.reactor(tenantId, id), 'ReactorCreated', { application_id: other });
    expect(await react(id)).toMatchObject(altered);
  });

  it('cannot have exchanged code shown, which an editor would write back', async () => {
    const id = await makeReactor(kept);
    const change = 'set search_path = rm_reactors; update reactor set code = ';
    await database.query(`${change}'stolen' where id = '${id}'`);
    expect(await manager.request('GET', `/reactors/${id}`)).toMatchObject(altered);
    await database.query(`${change}'${kept}' where id = '${id}'; reset search_path`);
    expect(await manager.request('GET', `/reactors/${id}`)).toMatchObject({ status: 200 });
  });

  it('cannot move a queued invocation to a reactor of its own', async () => {
    const waiting: (() => void)[] = [];
    const gate = createServer((_request, response) => void waiting.push(() => response.end('open')));
    await new Promise<void>((resolve) => gate.listen(0, '127.0.0.1', resolve));
    const GATE = `http://127.0.0.1:${(gate.address() as AddressInfo).port}/`;
    const sink = await receiver();
    const holds = await makeReactor(
      'module.exports = async (req) => { await fetch(req.configuration.GATE); };',
      {
        GATE,
      },
    );
    const thief = await makeReactor(
      'module.exports = async (req) => { await fetch(req.configuration.SINK, { method: "POST", body: JSON.stringify(req.args) }); return {}; };',
      { SINK: sink.url },
    );
    const honest = await makeReactor(kept);
    const result = await receiver();
    const invoke = (id: string, args: object, callback_url: string) =>
      victim.expect(202, 'POST', `/reactors/${id}/react`, { body: { args, callback_url } });
    const other = await receiver();
    await Promise.all(Array.from({ length: places }, () => invoke(holds, {}, other.url)));
    await waitUntil(() => waiting.length === places, { what: 'runs that take all places' });
    await invoke(honest, { card: `{{ ${card} }}` }, result.url);
    const { rowCount } = await database.query(
      `update event_store.event set data = (data::jsonb || jsonb_build_object('reactor_id', $2::text))::json
        where type = 'ReactorInvoked' and data->>'reactor_id' = $1`,
      [honest, thief],
    );
    expect(rowCount).toBe(1);
    waiting.forEach((open) => open());
    const ends = async () =>
      (
        await database.query<{ reason: string }>(
          `select data->>'reason' as reason from event_store.event
            where type = 'WebhookGivenUp' and data->>'reactor_id' = $1`,
          [thief],
        )
      ).rows;
    await waitUntil(async () => sink.deliveries.length > 0 || (await ends()).length > 0, {
      timeoutMs: 30_000,
      what: 'the end of the invocation',
    });
    gate.closeAllConnections();
    gate.close();
    expect(sink.deliveries).toEqual([]);
    expect(await ends()).toEqual([{ reason: 'record altered' }]);
  });

  it('cannot have the result of another run shown as that of its own', async () => {
    const id = await makeReactor(shows);
    expect(await react(id)).toMatchObject({ status: 200, body: { raw: { card: { number } } } });
    const thief = (await makeApplication()).client;
    const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
    const body = { args: {} };
    const own = await thief.request('POST', `/reactors/${id}/react`, { body, headers });
    expect(own).toMatchObject({ status: 200, body: { raw: {} } });
    const { rows } = await database.query<{ stream: string; data: object }>(
      `select stream, data from event_store.event where type = 'ReactorSucceeded' order by position desc limit 2`,
    );
    const [mine, theirs] = rows;
    await alterEvent(mine?.stream ?? '', 'ReactorSucceeded', theirs?.data ?? {});
    const { rowCount } = await database.query(
      `update idempotency.answer set answer = null, held_until = '-infinity'`,
    );
    expect(rowCount).toBe(1);
    const repeated = await thief.request('POST', `/reactors/${id}/react`, { body, headers });
    expect(JSON.stringify(repeated)).not.toContain(number);
    expect(repeated).toMatchObject({ status: 500 });
  });

  it('cannot have the next change of an application signed in the name of another', async () => {
    const { id } = await makeApplication();
    const { id: other } = await makeApplication();
    const { rowCount } = await database.query(
      `update event_store.event e set data = o.data from event_store.event o where e.stream = $1 and o.stream = $2`,
      [streams.application(tenantId, id), streams.application(tenantId, other)],
    );
    expect(rowCount).toBe(1);
    const body = { name: 'changed', permissions: ['token:create'] };
    const changed = await manager.request('PUT', `/applications/${id}`, { body });
    expect(changed).toMatchObject(altered);
  });

  it.each<[string, (backend: Client, id: string) => Promise<unknown>]>([
    [
      'a token that was made again under the id',
      async (backend, id) => {
        await backend.expect(204, 'DELETE', `/tokens/${id}`);
        const body = { id, type: 'token', data: number };
        return backend.expect(201, 'POST', '/tokens', { body });
      },
    ],
    [
      'a change of the token',
      (backend, id) => backend.expect(200, 'PATCH', `/tokens/${id}`, { body: { data: number } }),
    ],
  ])('cannot have the repeat of a create show %s', async (_what, write) => {
    const backend = (await makeApplication(revealingApplication())).client;
    const rule = { description: 'r', priority: 1, container: '/', transform: 'reveal' };
    const grants = { permissions: [], rules: [{ ...rule, permissions: ['token:create'] }] };
    const page = (await makeApplication(plainApplication({ type: 'public', ...grants }))).client;
    const id = randomUUID();
    const create = (status: number) =>
      page.expect<Token>(status, 'POST', '/tokens', {
        body: { id, type: 'token', data: 'own' },
        headers: { 'SVC-IDEMPOTENCY-KEY': id },
      });
    const { created_at: occurred_at } = (await create(201)).body;
    await write(backend, id);
    const { rowCount } = await database.query(
      `update event_store.event set type = 'TokenCreated', metadata = (metadata::jsonb || $2::jsonb)::json
        where stream = $1 and revision = (select max(revision) from event_store.event where stream = $1)`,
      [streams.token(tenantId, id), JSON.stringify({ occurred_at })],
    );
    expect(rowCount).toBe(1);
    expect((await create(500)).body).toMatchObject(altered.body);
  });

  it('is counted and written to the log, by kind', async () => {
    const metrics = await (await fetch(`${vault.url}/metrics`)).text();
    for (const kind of ['reactor', 'invocation', 'application'])
      expect(metrics).toMatch(new RegExp(`vault_altered_records_total\\{.*kind="${kind}".*\\} [1-9]`));
    expect(vault.output()).toContain('a stored record was altered and is refused');
    expect(vault.output()).not.toContain(number);
  });

  it('cannot become a caller by removing all signatures, as if an older release had written the records', async () => {
    const key = `key_pvt_${'T'.repeat(30)}`;
    const id = randomUUID();
    const rule = {
      description: 'all',
      priority: 1,
      container: '/',
      transform: 'reveal',
      permissions: ['token:read'],
    };
    const grants = { name: 'thief', type: 'private', permissions: [], rules: [rule] };
    const key_hash = createHash('sha256').update(key).digest('hex');
    const { rows } = await database.query<{ metadata: object }>(
      `select metadata from event_store.event where type = 'ApplicationCreated' limit 1`,
    );
    const planted = { application_id: id, key_hash, ...grants };
    await database.query('begin');
    await database.query(
      `update event_store.event set data = (data::jsonb - 'signature')::json where data::jsonb ? 'signature'`,
    );
    await database.query(`set search_path = rm_tenants; update tenant set signature = null`);
    await database.query(`set search_path = rm_applications; update application set signature = null`);
    await database.query('reset search_path');
    await database.query(
      `insert into event_store.event (position, stream, revision, version, bytes, id, type, data, metadata)
       select position + 1, $1, 0, 2, 1000, gen_random_uuid(), 'ApplicationCreated', $2, $3 from event_store.head`,
      [streams.application(tenantId, id), JSON.stringify(planted), JSON.stringify(rows[0]?.metadata)],
    );
    await database.query('update event_store.head set position = position + 1');
    await database.query('insert into event_store.stream (name, revision) values ($1, 0)', [
      streams.application(tenantId, id),
    ]);
    await database.query('commit');
    await database.end();
    await vault.stop();
    vault = await startStandaloneProcess({ dataDir, env });
    await connect();
    const look = () => vault.client(key).request('GET', `/tokens/${card}`);
    let read = await look();
    // An upgrade would end after a short time.
    await waitUntil(async () => (read = await look()).status !== 503, { what: 'the end of an upgrade' });
    expect(JSON.stringify(read)).not.toContain(number);
    expect(read).toMatchObject(altered);
  });
});
