import type { Position } from '@token-vault/event-store';
import { describe, expect, it } from 'vitest';
import { createProjectionAdmin, type ProjectionAdmin } from '../src/admin.ts';
import type { Projection } from '../src/projection.ts';
import { tokens } from '../src/projections/index.ts';
import { many, useAdministeredVault, type AdministeredVault } from './administered-vault.ts';
import { eventually } from './vault.ts';

let vault: AdministeredVault;
useAdministeredVault((opened) => (vault = opened));

describe('the indexes that only readers need', () => {
  /** An index whose build waits for a lock. */
  const gated: Projection = {
    ...tokens,
    tables: tokens.tables.map((table) =>
      table.name === 'token'
        ? { ...table, indexes: [...(table.indexes ?? []), { on: '(public.gate(id))', isForReaders: true }] }
        : table,
    ),
  };
  const indexes = () =>
    vault.rows(
      `select regexp_replace(indexdef, 'INDEX \\w+ ON', '') as index from pg_indexes where schemaname = 'rm_tokens' order by 1`,
    );
  const indexing = `select pid from pg_stat_activity where application_name = 'rebuild tokens' and query like '%public.gate%'
    and wait_event_type = 'Lock' and datname = current_database()`;
  let gatedAdmin: ProjectionAdmin;

  /** A rebuild that builds indexes until the lock is released. */
  async function indexingRebuild(signal?: AbortSignal) {
    await vault.rows(`create or replace function public.gate(text) returns text language plpgsql immutable as
      $$ begin perform pg_advisory_xact_lock_shared(4711); return $1; end $$`);
    vault.start({ projections: [gated] });
    await vault.reached(await vault.append(...many(40)), ['tokens']);
    gatedAdmin = createProjectionAdmin({
      store: vault.store,
      connectionString: vault.url,
      projections: [gated],
    });
    const lock = await vault.pool.connect();
    await lock.query('select pg_advisory_lock(4711)');
    const outcome = gatedAdmin.rebuild('tokens', signal ? { signal } : {}).catch((error: unknown) => error);
    await eventually(async () => (await vault.rows(indexing)).length > 0);
    const letGo = async () => {
      await lock.query('select pg_advisory_unlock(4711)');
      lock.release();
    };
    return { outcome, letGo };
  }

  it('are the same after a rebuild', async () => {
    const before = async () => (await indexes()).length > 0;
    vault.start({ projections: [tokens] });
    await eventually(before);
    const made = await indexes();
    expect(made.length).toBeGreaterThan(12);
    expect(await vault.admin.rebuild('tokens')).toBe('swapped');
    expect(await indexes()).toEqual(made);
  });

  it('are all made by the next rebuild when one is killed while it makes them', async () => {
    const { outcome, letGo } = await indexingRebuild();
    const made = await indexes();
    await vault.rows(`select pg_terminate_backend(pid) from (${indexing}) i`);
    expect(await outcome).toBeInstanceOf(Error);
    await letGo();
    const seen: Position[] = [];
    const onProgress = (position: Position) => seen.push(position);
    expect(await gatedAdmin.rebuild('tokens', { onProgress })).toBe('swapped');
    expect(seen).toEqual([]);
    expect(await indexes()).toEqual(made);
  });

  it('are not made when the rebuild is aborted, and made when it is resumed', async () => {
    const abort = new AbortController();
    const { outcome, letGo } = await indexingRebuild(abort.signal);
    const made = await indexes();
    abort.abort();
    expect(await outcome).toBe('aborted');
    await letGo();
    expect(await gatedAdmin.rebuild('tokens')).toBe('swapped');
    expect(await indexes()).toEqual(made);
  });

  it('do not delay the cancellation of the rebuild', async () => {
    const { outcome, letGo } = await indexingRebuild();
    expect(await gatedAdmin.cancel('tokens')).toBe(true);
    expect(await outcome).toBe('cancelled');
    expect(await vault.schemas()).toEqual(['rm_tokens']);
    await letGo();
  });

  it('that cannot be made end the rebuild, which reports the reason', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    const impossible = {
      ...tokens,
      tables: tokens.tables.map((table) => ({
        ...table,
        indexes: table.name === 'token' ? [{ on: '((1 / length(repeat(id, 0))))', isForReaders: true }] : [],
      })),
    };
    const wrong = createProjectionAdmin({
      store: vault.store,
      connectionString: vault.url,
      projections: [impossible],
    });
    await expect(wrong.rebuild('tokens')).rejects.toThrow('the rebuild of tokens failed: 22012');
    expect(await vault.statusOf('tokens')).toMatchObject({
      status: 'live',
      rebuild: { status: 'failed', errorCode: '22012' },
    });
  });
});
