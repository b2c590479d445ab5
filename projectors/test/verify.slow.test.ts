import { randomBytes, randomUUID } from 'node:crypto';
import type { Position } from '@token-vault/event-store';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createProjectionAdmin, type ProjectionAdmin } from '../src/admin.ts';
import { log, tenants, tokens } from '../src/projections/index.ts';
import { many, useAdministeredVault, type AdministeredVault } from './administered-vault.ts';
import { collidingPart } from './colliding-text.ts';
import { event, tenantCreated, tenantId, tokenCreated, tokenDeleted } from './events.ts';
import { eventually } from './vault.ts';

let vault: AdministeredVault;
useAdministeredVault((opened) => (vault = opened));

describe('verifying', () => {
  it('finds no difference in the runner’s tables while the runner continues', async () => {
    vault.start({ projections: [log, tokens] });
    await vault.reached(await vault.append(...many(40), tokenDeleted('token-5')), ['tokens', 'log']);
    for (const name of ['tokens', 'log']) {
      const verified = await vault.admin.verify(name);
      expect(verified).toMatchObject({ isEqual: true, position: '41' });
    }
    expect(await vault.schemas()).toEqual(['rm_tokens']);
  });

  it('finds a planted, a missing and an altered row', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(40)), ['tokens']);
    await vault.rows(`update rm_tokens.token_metadata set value = 'x' where token_id = 'token-7'`);
    await vault.rows(`delete from rm_tokens.token_search_index`);
    await vault.plantToken();
    const verified = await vault.admin.verify('tokens');
    expect(verified?.isEqual).toBe(false);
    expect(verified?.tables).toMatchObject([
      { table: 'token', rows: 41, surplus: 1, missing: 0 },
      { table: 'token_metadata', surplus: 1, missing: 1 },
      { table: 'token_search_index', surplus: 0, missing: 0 },
      { table: 'token_count', surplus: 1, missing: 1 },
      { table: 'staged_event', rows: 0, surplus: 0, missing: 0 },
      { table: 'closed_transaction', rows: 0, surplus: 0, missing: 0 },
    ]);
    expect(await vault.isPlanted()).toBe(true);
  });

  it('finds planted and missing rows of events and ends of transactions', async () => {
    vault.start({ projections: [tokens] });
    const [open, over, planted] = [randomUUID(), randomUUID(), randomUUID()];
    const opened = (id: string) =>
      event('TransactionOpened', { transaction_id: id, expires_at: '2030-01-01T11:00:00Z' });
    const history = [
      opened(open),
      tokenCreated('enlisted', {}, { transaction_id: open }),
      opened(over),
      event('TransactionRolledBack', { transaction_id: over }),
    ];
    await vault.reached(await vault.append(...history), ['tokens']);
    expect(await vault.admin.verify('tokens')).toMatchObject({ isEqual: true });
    await vault.rows(`update rm_tokens.staged_event set position = position + 1000`);
    await vault.rows(`insert into rm_tokens.closed_transaction values ($1, now())`, [planted]);
    const verified = await vault.admin.verify('tokens');
    expect(verified?.isEqual).toBe(false);
    const found = verified?.tables.filter(({ surplus, missing }) => surplus + missing > 0);
    expect(found).toMatchObject([
      {
        table: 'staged_event',
        surplus: 1,
        missing: 1,
        keys: [`transaction_id=${open}, position=1002`, `transaction_id=${open}, position=2`],
      },
      { table: 'closed_transaction', surplus: 1, missing: 0, keys: [`id=${planted}`] },
    ]);
  });

  it('finds an altered row although a cast of the type of the table to text gives the true one', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await vault.rows(
      `create schema q; create table q.truth as select id, format('%s', t) as text from rm_tokens.token t`,
    );
    await vault.rows(`create function q.truth(rm_tokens.token) returns text language sql as 'select text from q.truth where id = $1.id';
      create cast (rm_tokens.token as text) with function q.truth`);
    await vault.rows(`begin; set local search_path = rm_tokens;
      update token set mask = '"{{ data }}"' where id = 'token-2'; commit`);
    const verified = await vault.admin.verify('tokens');
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 1 });
    expect(verified?.tables[0]?.keys).toEqual([expect.stringMatching(/^tenant_id=\S+, id=token-2$/)]);
  });

  it('finds an altered row that has the hash of the true row in Postgres', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    const ofToken = `textin(record_out(t)) as row, hashtextextended(textin(record_out(t)), 0)::text as hash
      from rm_tokens.token t where id = 'token-2'`;
    const [before] = await vault.rows<{ hash: string }>(`select ${ofToken}`);
    const free = '\u0001'.repeat(23);
    const alter = (set: string) =>
      vault.rows(
        `begin; set local search_path = rm_tokens; update token set ${set} where id = 'token-2'; commit`,
      );
    await alter(`mask = '"{{ data }}"', index_signature = '${free}'`);
    const [altered] = await vault.rows<{ row: string }>(`select ${ofToken}`);
    const part = collidingPart(altered?.row ?? '', free, BigInt(before?.hash ?? 0));
    await alter(`index_signature = '${part}'`);
    expect(await vault.rows(`select ${ofToken}`)).toMatchObject([{ hash: before?.hash }]);
    const verified = await vault.admin.verify('tokens');
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 1 });
  });

  it('does not take a successor that a writer of the database left: views of the live tables', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await vault.rows('create schema rm_tokens_next');
    for (const { name } of tokens.tables)
      await vault.rows(`create view rm_tokens_next.${name} as select * from rm_tokens.${name}`);
    await vault.rows(`insert into projections.rebuild (name, purpose, version, generation, status, position)
      select name, 'verify', version, generation + 1, 'live', 9223372036854775807 from projections.checkpoint where name = 'tokens'`);
    await vault.plantToken();
    const verified = await vault.admin.verify('tokens');
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 0 });
  });
});

/** The connection string of a role that reads and writes the rows of the vault, and may make schemas. It is no superuser. */
async function urlOfRole(): Promise<string> {
  const role = `vault_${randomBytes(6).toString('hex')}`;
  const database = new URL(vault.url).pathname.slice(1);
  await vault.rows(`create role ${role} login password 'secret'`);
  // The database, in which it has its rights, is dropped before that.
  onTestFinished(async () => {
    const server = new pg.Client(Object.assign(new URL(vault.url), { pathname: '/postgres' }).href);
    await server.connect();
    await server.query(`drop role ${role}`);
    await server.end();
  });
  await vault.rows(`grant create on database ${database} to ${role}`);
  for (const schema of ['projections', 'rm_tokens']) {
    await vault.rows(`grant usage on schema ${schema} to ${role}`);
    await vault.rows(`grant all on all tables in schema ${schema} to ${role}`);
  }
  const url = new URL(vault.url);
  url.searchParams.set('user', role);
  url.searchParams.set('password', 'secret');
  return url.href;
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Resolves when the session of that name waits for a lock. */
const waitsForLock = (session: string): Promise<void> =>
  eventually(async () => {
    const waiting = await vault.rows(
      `select from pg_stat_activity
        where datname = current_database() and application_name = $1 and wait_event_type = 'Lock'`,
      [session],
    );
    return waiting.length > 0;
  });

/** The commands for the read models, with work that is done whenever they have begun to fill tables. */
function adminThat(work: () => Promise<unknown>, connectionString = vault.url): ProjectionAdmin {
  const readAll: typeof vault.store.readAll = async function* (...range) {
    await work();
    yield* vault.store.readAll(...range);
  };
  return createProjectionAdmin({ store: { ...vault.store, readAll }, connectionString, maxBatch: 10 });
}

describe('while another session of the role changes rows, verifying', () => {
  const attempt = (client: pg.Client, schema: string, statement: string): Promise<string> =>
    client.query(`begin; set local search_path = ${schema}; ${statement}; commit`).then(
      () => 'done',
      async (error: Error) => {
        await client.query('rollback');
        return error.message;
      },
    );

  it('finds a row that was planted in all tables of tokens that the session reaches', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(15)), ['tokens']);
    const url = await urlOfRole();
    const [holder, writer] = [await connect(url), await connect(url)];
    const hold = () =>
      holder.query(`begin; select from projections.checkpoint where name = 'tokens' for update`);
    const verifying = adminThat(hold, url).verify('tokens');
    await waitsForLock('rebuild tokens holder');
    const made = await writer.query<{ schema: string }>(
      `select relnamespace::regnamespace::text as schema from pg_class where relname = 'token' and relkind = 'r'`,
    );
    const outcomes = new Map<string, readonly string[]>();
    for (const { schema } of made.rows) {
      const planted = `insert into token (tenant_id, id, type, data, container, created_by, created_at, seq, ordinal)
        select tenant_id, 'planted', type, data, container, created_by, created_at, 0, 0 from rm_tokens.token where id = 'token-0'`;
      outcomes.set(schema, [
        await attempt(writer, schema, planted),
        await attempt(writer, schema, `select from ${schema}.token`),
        await attempt(writer, schema, `update ${schema}.token set mask = null`),
      ]);
    }
    await holder.query('rollback');
    const verified = await verifying;
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 0 });
    const temporary = [...outcomes.keys()].find((schema) => schema.startsWith('pg_temp_'));
    expect(outcomes).toEqual(
      new Map([
        ['rm_tokens', ['done', 'done', 'done']],
        [
          temporary,
          [
            'relation "token" does not exist',
            `permission denied for schema ${temporary}`,
            `permission denied for schema ${temporary}`,
          ],
        ],
      ]),
    );
  });

  it('leaves out no event when its position is moved while it writes a batch', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(15)), ['tokens']);
    await vault.rows(
      `begin; set local search_path = rm_tokens; delete from token; delete from token_metadata; commit`,
    );
    const mover = await connect(vault.url);
    const move = () =>
      mover.query(
        `begin; update projections.rebuild set position = 15 where name = 'tokens' and position = 0`,
      );
    const verifying = adminThat(move).verify('tokens');
    await waitsForLock('rebuild tokens');
    await mover.query('commit');
    const verified = await verifying;
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 0, missing: 15 });
  });
});

describe('while the head of the log is set back for a moment, verifying', () => {
  it('leaves out no event', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await vault.rows(`begin; set local search_path = rm_tokens; delete from token where id = 'token-2';
      delete from token_metadata where token_id = 'token-2'; update token_count set count = 2; commit`);
    let readings = 0;
    const readAll: typeof vault.store.readAll = async function* (...range) {
      const isHidden = ++readings === 1;
      const hidden = isHidden ? vault.log.events.splice(-1) : [];
      try {
        yield* vault.store.readAll(...range);
      } finally {
        vault.log.events.push(...hidden);
      }
    };
    const store = { ...vault.store, readAll };
    const admin = createProjectionAdmin({ store, connectionString: vault.url, maxBatch: 10 });
    await expect(admin.verify('tokens')).rejects.toThrow('the log has no event at position 3');
    expect(await vault.admin.verify('tokens')).toMatchObject({ isEqual: false });
  });

  it('leaves out no event of the last ones, for which the read model is held', async () => {
    const projectors = vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await projectors.close();
    await vault.rows(
      `begin; set local search_path = rm_tokens; delete from token where id = 'token-2'; commit`,
    );
    const moveTo = (position: number) =>
      `update projections.checkpoint set position = ${position} where name = 'tokens'`;
    await vault.rows(moveTo(2));
    const mover = await connect(vault.url);
    await mover.query(`begin; ${moveTo(3)}`);
    const store = { ...vault.store, head: () => Promise.resolve('2' as Position) };
    const admin = createProjectionAdmin({ store, connectionString: vault.url });
    const verifying = admin.verify('tokens');
    await waitsForLock('rebuild tokens holder');
    await mover.query('commit');
    const verified = await verifying;
    expect(verified).toMatchObject({ position: '3' });
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 0, missing: 1 });
  });

  it('refuses a read model whose position lies beyond it', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await vault.rows(`update projections.checkpoint set position = 5 where name = 'tokens'`);
    await expect(vault.admin.verify('tokens')).rejects.toThrow('the log has no event at position 4');
  });
});

describe('verifying', () => {
  it('sends no notification that rights have changed', async () => {
    vault.start({ projections: [tenants] });
    const renamed = event('TenantUpdated', { tenant_id: tenantId, name: 'New', settings: {} });
    await vault.reached(await vault.append(tenantCreated(), renamed), ['tenants']);
    const listener = await connect(vault.url);
    const heard: (string | undefined)[] = [];
    listener.on('notification', ({ payload }) => heard.push(payload));
    await listener.query('listen access_changed');
    // One event a batch: changes of one batch are written as one row.
    const admin = createProjectionAdmin({ store: vault.store, connectionString: vault.url, maxBatch: 1 });
    expect(await admin.verify('tenants')).toMatchObject({ isEqual: true });
    await vault.rows(`notify access_changed, 'end'`);
    await eventually(() => heard.at(-1) === 'end');
    expect(heard).toEqual(['end']);
  });

  it('names the right that a role without temporary tables lacks', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(1)), ['tokens']);
    const connectionString = await urlOfRole();
    const database = new URL(vault.url).pathname.slice(1);
    await vault.rows(`revoke temporary on database ${database} from public`);
    const admin = createProjectionAdmin({ store: vault.store, connectionString });
    await expect(admin.verify('tokens')).rejects.toMatchObject({
      code: 'temporary_tables_refused',
      message: expect.stringContaining(`grant temporary on database ${database} to vault_`) as string,
    });
    expect(await vault.statusOf('tokens')).not.toHaveProperty('rebuild');
  });

  it('ends when it is cancelled while it compares', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(1)), ['tokens']);
    const holder = await connect(vault.url);
    await holder.query('begin; lock table rm_tokens.token in access exclusive mode');
    const verifying = vault.admin.verify('tokens');
    await waitsForLock('rebuild tokens');
    expect(await vault.admin.cancel('tokens')).toBe(true);
    await holder.query('rollback');
    expect(await verifying).toBeUndefined();
  });
});
