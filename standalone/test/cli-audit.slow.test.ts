import {
  cardNumber,
  cardToken,
  createDataDirectory,
  createTestPool,
  eventStoreDoubleOf,
  hasDouble,
  plainApplication,
  removeDataDirectory,
  resultOf,
  runCommand,
  startStandaloneProcess,
  type StandaloneProcess,
  testStack,
} from '@token-vault/test-support';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const number = cardNumber();
let dataDir: string;
let vault: StandaloneProcess;
let pool: Pool;
/** The checkpoints that an operator keeps. */
let noted: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  pool = createTestPool(await vault.databaseUrl());
  const body = plainApplication();
  const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body });
  await vault.client(made.body.key).expect(201, 'POST', '/tokens', { body: cardToken(number) });
  const proxy = { name: 'p', destination: 'https://api.example.com' };
  await vault.client().expect(201, 'POST', '/proxies', { body: proxy });
  await resultOf(dataDir, 'audit', 'seal');
});
afterAll(async () => {
  await pool.end();
  await removeDataDirectory(dataDir);
});

it('the log of a running vault is valid as it was signed', async () => {
  expect(await resultOf(dataDir, 'audit', 'verify')).toMatch(
    /^the log is as it was signed: \d+ events after 0/m,
  );
});

it('a view in place of a table is named', async () => {
  await pool.query(`alter table rm_proxies.proxy rename to proxy_real`);
  await pool.query(`create view rm_proxies.proxy as select * from rm_proxies.proxy_real`);
  const found = await runCommand(dataDir, ['audit', 'verify', '--no-rows']);
  await pool.query('drop view rm_proxies.proxy');
  await pool.query(`alter table rm_proxies.proxy_real rename to proxy`);
  expect(found.code).toBe(1);
  expect(found.stdout).toMatch(/^schema: is not of this release: relation rm_proxies\.proxy v p$/m);
  expect(found.stderr).toMatch(/^vault: the schema is not that of this release: \d+ differences$/m);
});

it('the last checkpoint of each tenant is noted, and a later log is held against it', async () => {
  noted = `${dataDir}/noted`;
  await resultOf(dataDir, 'audit', 'verify', '--no-rows', '--note', noted);
  const line = await readFile(noted, 'utf8');
  expect(line).toMatch(new RegExp(`^${vault.credentials.tenant_id} \\d+ \\d+ [\\w-]{86}\n$`));
  await resultOf(dataDir, 'audit', 'verify', '--no-rows', '--against', noted);
  await writeFile(`${noted}.other`, line.replace(/[\w-]{86}/, 'A'.repeat(86)));
  const found = await runCommand(dataDir, ['audit', 'verify', '--no-rows', '--against', `${noted}.other`]);
  expect(found.code).toBe(1);
  expect(found.stdout).toContain('was taken out or replaced');
});

it('an export has all events, and shows no plaintext', async () => {
  const lines = await resultOf(dataDir, 'audit', 'export', '--tenant', vault.credentials.tenant_id);
  const types = lines.trim().split('\n').map((line) => (JSON.parse(line) as { type: string }).type); // prettier-ignore
  expect(types).toEqual(expect.arrayContaining(['TenantCreated', 'TokenCreated', 'AuditCheckpointSigned']));
  expect(lines).not.toContain(number);
});

it('a row that was removed from the log is found', async () => {
  await pool.query(`delete from rm_log.entry where operation = 'create' and entity_type = 'card'`);
  const found = await runCommand(dataDir, ['audit', 'verify']);
  expect(found.code).toBe(1);
  expect(found.stdout).not.toContain('the log is as it was signed');
  expect(found.stderr).toMatch(
    /^vault: log is not what the log gives: entry has 0 rows too many and lacks 1/m,
  );
  expect(await runCommand(dataDir, ['audit', 'verify', '--no-rows'])).toMatchObject({ code: 0 });
  await resultOf(dataDir, 'projections', 'rebuild', 'log');
});

it.each([
  [
    'an application',
    `insert into rm_applications.application
       select tenant_id, gen_random_uuid(), name, type, permissions,
              '[{"priority":1,"container":"/","transform":"reveal","permissions":["token:read"]}]',
              repeat('a', 64), key_id, key_created_at, keys, created_by, created_at, modified_by, modified_at, expires_at, expires_at_text, signature, seq
         from rm_applications.application limit 1`,
    'applications',
    /application has 1 rows too many and lacks 0 \(id=[\da-f-]{36}\)/,
  ],
  [
    'a key of an application',
    `insert into rm_applications.application_key
       select repeat('b', 64), tenant_id, id, 'expired' from rm_applications.application limit 1`,
    'applications',
    /application_key has 1 rows too many and lacks 0/,
  ],
  [
    'a mask',
    `set search_path = rm_tokens; update token set mask = '"{{ data }}"'; reset search_path`,
    'tokens',
    /token has 1 rows too many and lacks 1 \(tenant_id=[\da-f-]{36}, id=[\da-f-]{36}\)/,
  ],
  [
    'the destination of a proxy',
    `update rm_proxies.proxy set destination = 'https://evil.example'`,
    'proxies',
    /^(vault: )?proxies is not what the log gives: proxy has 1 rows too many and lacks 1 \(id=[\da-f-]{36}\)/m,
  ],
  [
    'the plan of a tenant',
    `update rm_tenants.tenant set plan = 'standard'`,
    'tenants',
    /tenant has 1 rows too many and lacks 1 \(id=/,
  ],
  [
    'a count of the log’s summary',
    `delete from rm_log_summary.hour_count`,
    'log_summary',
    /log_summary is not what the log gives: hour_count has 0 rows too many and lacks [1-9]/,
  ],
])('%s that was forged in a read model is named', async (_what, statement, name, told) => {
  await pool.query(statement);
  const found = await runCommand(dataDir, ['audit', 'verify']);
  expect(found.code).toBe(1);
  expect(found.stderr).toMatch(told);
  await resultOf(dataDir, 'projections', 'rebuild', name);
});

it.skipIf(testStack.startsWith('eventstoredb'))(
  'an event that stops the rebuild of a read model is named, and the others are compared all the same',
  async () => {
    const body = plainApplication({ permissions: ['token:create'] });
    const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body });
    const create = async () =>
      (await vault.client(made.body.key).expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken(number) })).body.id; // prettier-ignore
    const [one, other] = [await create(), await create()];
    // Another creation of the one, without a signature, takes the place of the other.
    await pool.query(
      `set session_replication_role = replica;
       update event_store.event e set stream = o.stream, revision = 1, data = (o.data::jsonb - 'signature')::json
         from event_store.event o where o.type = 'TokenCreated' and e.type = 'TokenCreated'
          and o.data->>'token_id' = '${one}' and e.data->>'token_id' = '${other}'`,
    );
    const { rows } = await pool.query<{ position: string }>(
      `select position from event_store.event where type = 'TokenCreated' and revision = 1`,
    );
    // Without the findings in the log, the rows are compared by the command for read models.
    const unsigned = await runCommand(dataDir, ['audit', 'verify']);
    expect(unsigned.code).toBe(1);
    expect(unsigned.stdout).toMatch(
      new RegExp(
        `^position ${rows[0]?.position}, tenant \\S+: TokenCreated of token-\\S+${one}, revision 1, is not signed$`,
        'm',
      ),
    );
    const found = await runCommand(dataDir, ['projections', 'verify', '--all']);
    expect(found.code).toBe(1);
    const place = `TokenCreated of token-\\S+${one}, revision 1, at position ${rows[0]?.position}`;
    expect(found.stderr).toMatch(
      new RegExp(`the rebuild of tokens failed at event \\S+ \\(${place}\\): 23505`),
    );
    expect(found.stderr).toContain('log is not what the log gives');
  },
);

// In Postgres any event can be altered, in EventStoreDB only those of the double.
it.skipIf(testStack.startsWith('eventstoredb') && !hasDouble)(
  'an event that was altered is named',
  async () => {
    const before = await resultOf(dataDir, 'audit', 'export', '--tenant', vault.credentials.tenant_id);
    const events = before.trim().split('\n').map((line) => JSON.parse(line) as { type: string; position: string; data: string }); // prettier-ignore
    const { position } =
      events.find(({ type, data }) => type === 'ApplicationCreated' && data.includes('backend')) ?? {};
    if (vault.eventStoreUrl)
      await (await eventStoreDoubleOf(dataDir)).tell('alter ApplicationCreated backend Backend');
    else
      await pool.query(
        `set session_replication_role = replica;
       update event_store.event set data = replace(data::text, 'backend', 'Backend')::json
         where type = 'ApplicationCreated' and data->>'name' = 'backend'`,
      );
    const found = await runCommand(dataDir, ['audit', 'verify']);
    expect(found.code).toBe(1);
    const place = `position ${position}, tenant ${vault.credentials.tenant_id}`;
    expect(found.stdout).toMatch(
      new RegExp(`^${place}: ApplicationCreated of \\S+, revision 0, is not what was signed$`, 'm'),
    );
    expect(found.stderr).toMatch(/^vault: the log was altered: [13] findings in .+\n$/m);
  },
);

it.skipIf(testStack.startsWith('eventstoredb'))(
  'events that were copied into the stream of another entity are named, too, and those that are not printed are counted',
  async () => {
    const { rows } = await pool.query<{ position: string }>(
      `with moved as (update event_store.head set position = position + 1001 returning position)
       insert into event_store.event (position, stream, revision, version, bytes, id, type, data, metadata)
       select moved.position - 1001 + n, e.stream || '0', n - 1, e.version, e.bytes, gen_random_uuid(), e.type, e.data, e.metadata
         from moved, generate_series(1, 1001) n, event_store.event e where e.type = 'ProxyCreated' returning position`,
    );
    const found = await runCommand(dataDir, ['audit', 'verify']);
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(
      new RegExp(
        `^position ${rows[0]?.position}, tenant \\S+: ProxyCreated of \\S+, revision 0, is not of the proxy of this stream$`,
        'm',
      ),
    );
    expect(found.stdout).toMatch(/^and 4 more findings$/m);
    expect(found.stderr).toMatch(/^vault: the log was altered: 1004 findings/m);
  },
);

it.skipIf(testStack.startsWith('eventstoredb'))(
  'a log whose newest checkpoints were made ordinary events is not signed again',
  async () => {
    await resultOf(dataDir, 'audit', 'seal');
    await pool.query(
      `set session_replication_role = replica;
       with made as (
         update event_store.event set stream = 'transactions-x', revision = position, type = 'TransactionCounted', data = '{}'
           where type = 'AuditCheckpointSigned' returning 1)
       select count(*) from made;
       delete from event_store.stream where name like 'audit-%'`,
    );
    const tenant = vault.credentials.tenant_id;
    expect(await runCommand(dataDir, ['audit', 'seal'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`the log of tenant ${tenant} is not sealed any more`) as string,
    });
    for (const against of [[], ['--against', noted]]) {
      const found = await runCommand(dataDir, ['audit', 'verify', '--no-rows', ...against]);
      expect(found.code).toBe(1);
      expect(found.stdout).toMatch(
        new RegExp(`, tenant ${tenant}: the checkpoint .+ was taken out or replaced$`, 'm'),
      );
    }
    const later = `${dataDir}/noted-later`;
    expect(await runCommand(dataDir, ['audit', 'verify', '--note', later])).toMatchObject({ code: 1 });
    expect(existsSync(later)).toBe(false);
  },
);
