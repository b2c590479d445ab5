import type { Token } from '@token-vault/contracts';
import {
  createDataDirectory,
  printed,
  removeDataDirectory,
  resultOf,
  runCommand,
  waitUntil,
} from '@token-vault/test-support';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useDatabase } from '../world/database.ts';
import { passDecisionTime } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, useVault } from '../world/vault.ts';

// A page of an export is decided by the rights and the tokens of the moment at which it is written (ADR 16).

const vault = useVault();
const { manager, makeApplication } = vault;
const database = useDatabase(vault);
/** Sees everything. */
let owner: Caller;
let place: string;
/** The first holds the rows of tokens, the second the keys of their data, the third keeps the rows from being written. */
let rows: pg.Client;
let keys: pg.Client;
let writes: pg.Client;

beforeAll(async () => {
  owner = await makeApplication({ rules: [rule()], permissions: ['token:delete'] });
  place = await createDataDirectory();
  await resultOf(place, 'transfer', 'keygen', path.join(place, 'recipient'));
  [rows, keys, writes] = [await connect(), await connect(), await connect()];
});
afterAll(async () => {
  await Promise.all([rows.end(), keys.end(), writes.end()]);
  await removeDataDirectory(place);
});

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(await vault.process().databaseUrl());
  await client.connect();
  return client;
}
const hold = (client: pg.Client, table: string) =>
  client.query(`begin; lock table ${table} in access exclusive mode`);

/** Whether the command waits for the table. */
async function waitsFor(table: string): Promise<boolean> {
  const text = `select from pg_stat_activity
    where application_name = 'vault command' and wait_event_type = 'Lock' and query like $1`;
  return ((await database.query(text, [`%${table}%`])).rowCount ?? 0) > 0;
}
const untilWaitingFor = (table: string) =>
  waitUntil(() => waitsFor(table), { timeoutMs: 30_000, what: `the command that waits for ${table}` });

interface Export {
  readonly exporterId: string;
  readonly tokenId: string;
}

let exports = 0;

/** What is done to an export of one token while its page is being read, and while its tokens are being opened. */
interface Meanwhile {
  readonly read?: (of: Export) => Promise<unknown>;
  readonly opened?: (of: Export) => Promise<unknown>;
}

async function exportWhile({ read, opened }: Meanwhile) {
  const container = `/exported/${++exports}/`;
  const exporter = await makeApplication({ rules: [rule({ container })] });
  const body = { type: 'token', data: 'exported', containers: [container] };
  const { id: tokenId } = (await owner.client.expect<Token>(201, 'POST', '/tokens', { body })).body;
  const tenant = (await manager.expect<{ id: string }>(200, 'GET', '/tenants/self')).body.id;
  const to = ['--recipient', path.join(place, 'recipient.pub'), '--to', path.join(place, `to-${exports}`)];
  const flags = ['--application', exporter.id, ...to];
  const of = { exporterId: exporter.id, tokenId };
  await hold(rows, 'rm_tokens.token');
  const exporting = runCommand(vault.process().dataDir, ['export', tenant, ...flags]);
  try {
    await untilWaitingFor('rm_tokens.token');
    await read?.(of);
    if (opened) {
      await hold(keys, 'key_ring.data_key');
      await rows.query('commit');
      await untilWaitingFor('data_key');
      await opened(of);
    }
    await passDecisionTime(performance.now());
  } finally {
    await rows.query('commit');
    await keys.query('commit');
  }
  const { code, stdout } = await exporting;
  const entries = await vault.logOf({ entity_id: tokenId, operation: 'export' });
  const refused = await vault.logOf({ actor_id: exporter.id, operation: 'denied' });
  expect([...entries, ...refused].filter(({ request }) => request !== 'export')).toEqual([]);
  const tokens = code === 0 ? printed(stdout, 'tokens') : undefined;
  return { code, tokens, onRecord: entries.length, refused: refused.length };
}

describe.each(['read', 'opened'] as const)('an export whose page is being %s', (time) => {
  it('has the token when nothing is withdrawn', async () => {
    const result = await exportWhile({ [time]: async () => undefined });
    expect(result).toEqual({ code: 0, tokens: '1', onRecord: 1, refused: 0 });
  });

  it('leaves the token out when the right is withdrawn', async () => {
    const narrow = ({ exporterId }: Export) =>
      manager.expect(200, 'PUT', `/applications/${exporterId}`, {
        body: { name: 'a', rules: [rule({ container: '/other/' })] },
      });
    const result = await exportWhile({ [time]: narrow });
    expect(result).toEqual({ code: 0, tokens: '0', onRecord: 0, refused: 0 });
  });

  it('ends, and the log says so, when no rule reveals tokens any more', async () => {
    const mask = ({ exporterId }: Export) =>
      manager.expect(200, 'PUT', `/applications/${exporterId}`, {
        body: { name: 'a', rules: [rule({ transform: 'mask' })] },
      });
    const result = await exportWhile({ [time]: mask });
    expect(result).toEqual({ code: 1, tokens: undefined, onRecord: 0, refused: 1 });
  });

  it('ends when the application is deleted', async () => {
    const remove = ({ exporterId }: Export) => manager.expect(204, 'DELETE', `/applications/${exporterId}`);
    expect(await exportWhile({ [time]: remove })).toEqual({
      code: 1,
      tokens: undefined,
      onRecord: 0,
      refused: 0,
    });
  });
});

describe('an export whose page was read', () => {
  const containerOf = async (tokenId: string) => {
    const text = 'select container from rm_tokens.token where id = $1';
    return (await database.query<{ container: string }>(text, [tokenId])).rows[0]?.container;
  };

  /** Locks that are asked for are given in their order: the row follows when the command has read it, and this lock has ended. */
  async function holdWrites(): Promise<() => Promise<unknown>> {
    const held = writes.query('begin; lock table rm_tokens.token in share mode');
    const text = `select from pg_locks where relation = 'rm_tokens.token'::regclass and mode = 'ShareLock'`;
    await waitUntil(async () => ((await database.query(text)).rowCount ?? 0) > 0, { what: 'the lock' });
    return () => held.then(() => writes.query('commit'));
  }

  it('leaves out a token that is moved to where the application sees nothing', async () => {
    let releaseWrites = (): Promise<unknown> => Promise.resolve();
    const result = await exportWhile({
      async read({ tokenId }) {
        releaseWrites = await holdWrites();
        await owner.client.expect(200, 'PATCH', `/tokens/${tokenId}`, {
          body: { containers: ['/other/'] },
          headers: { Prefer: 'respond-async' },
        });
      },
      async opened({ tokenId }) {
        await releaseWrites();
        await waitUntil(async () => (await containerOf(tokenId)) === '/other/', { what: 'the move' });
      },
    });
    expect(result).toEqual({ code: 0, tokens: '0', onRecord: 0, refused: 0 });
  });
});
