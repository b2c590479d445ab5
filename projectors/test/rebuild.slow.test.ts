import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EventStore, Position } from '@token-vault/event-store';
import { createProjectionAdmin, type ProjectionAdmin } from '../src/admin.ts';
import type { Projection } from '../src/projection.ts';
import { log, tokens } from '../src/projections/index.ts';
import { tokenCreated, tokenDeleted, tokenUpdated } from './events.ts';
import { contentOf, eventually, openVault, type Vault } from './vault.ts';

let vault: Vault;
let admin: ProjectionAdmin;
beforeEach(async () => {
  vault = await openVault();
  admin = createProjectionAdmin({ store: vault.store, connectionString: vault.url, maxBatch: 10 });
});
afterEach(() => vault.close());

const many = (count: number, prefix = 'token') =>
  Array.from({ length: count }, (_, index) =>
    tokenCreated(`${prefix}-${index}`, { metadata: { n: String(index % 3) } }),
  );

const plantToken = () =>
  vault.rows(`begin; set local search_path = rm_tokens;
    insert into token (tenant_id, id, type, data, container, created_by, created_at, seq, ordinal)
    select tenant_id, 'planted', type, data, container, created_by, created_at, 0, 0 from token limit 1;
    commit`);
const isPlanted = async () =>
  (await vault.rows(`select from rm_tokens.token where id = 'planted'`)).length > 0;
const schemas = async () =>
  (
    await vault.rows<{ nspname: string }>(
      `select nspname from pg_namespace where nspname like 'rm\\_tokens%' order by 1`,
    )
  ).map(({ nspname }) => nspname);
const statusOf = async (name: string) => (await admin.status()).find((status) => status.name === name);

/** A log whose replay stops before its 31st event until the gate is opened. */
function gatedLog(): {
  readonly store: EventStore;
  readonly reached: Promise<void>;
  readonly open: () => void;
} {
  const reached = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const store: EventStore = {
    ...vault.store,
    async *readAll(after, options) {
      for await (const event of vault.store.readAll(after, options)) {
        if (event.position === '31') {
          reached.resolve();
          await gate.promise;
        }
        yield event;
      }
    },
  };
  return { store, reached: reached.promise, open: gate.resolve };
}

/** A rebuild of 100 tokens that is stopped in the middle. */
async function standingRebuild() {
  vault.start({ projections: [tokens] });
  await vault.reached(await vault.append(...many(100)), ['tokens']);
  const { store, reached, open } = gatedLog();
  const outcome = createProjectionAdmin({ store, connectionString: vault.url, maxBatch: 10 }).rebuild(
    'tokens',
  );
  await reached;
  return { outcome, open };
}

describe('a rebuild', () => {
  it('gives the content of the log without the planted rows, and leaves no other tables', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(
      await vault.append(...many(40), tokenUpdated('token-3', { metadata: {} }), tokenDeleted('token-5')),
      ['tokens'],
    );
    const before = await contentOf(vault, tokens);
    await plantToken();
    expect(await admin.rebuild('tokens')).toBe('swapped');
    expect(await contentOf(vault, tokens)).toEqual(before);
    expect(await schemas()).toEqual(['rm_tokens']);
    expect(await statusOf('tokens')).toMatchObject({ status: 'live', generation: 2 });
    await vault.reached(await vault.append(tokenCreated('after')), ['tokens']);
    expect((await contentOf(vault, tokens))['token']).toHaveLength(40);
  });

  it('continues where it was killed', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(100)), ['tokens']);
    const kill = new AbortController();
    const first = admin.rebuild('tokens', {
      signal: kill.signal,
      onProgress: (position) => position === '30' && kill.abort(),
    });
    expect(await first).toBe('aborted');
    const seen: Position[] = [];
    expect(await admin.rebuild('tokens', { onProgress: (position) => seen.push(position) })).toBe('swapped');
    expect(Number(seen[0])).toBeGreaterThan(30);
    expect((await contentOf(vault, tokens))['token']).toHaveLength(100);
  });

  it('continues after its connection was cut in the middle', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(100)), ['tokens']);
    let cuts = 0;
    const cut = (): void => {
      if (cuts++ === 3)
        void vault.rows(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = 'rebuild tokens' and datname = current_database()`,
        );
    };
    for (;;) {
      const outcome = await admin.rebuild('tokens', { onProgress: cut }).catch(() => 'cut');
      if (outcome === 'swapped') break;
    }
    expect((await contentOf(vault, tokens))['token']).toHaveLength(100);
    expect((await admin.verify('tokens'))?.isEqual).toBe(true);
  });

  it('is cancelled from outside, and the live read model does not change', async () => {
    const { outcome, open } = await standingRebuild();
    await plantToken();
    expect(await admin.cancel('tokens')).toBe(true);
    open();
    expect(await outcome).toBe('cancelled');
    expect(await isPlanted()).toBe(true);
    expect(await schemas()).toEqual(['rm_tokens']);
    expect(await admin.cancel('tokens')).toBe(false);
  });

  it('is paused and resumed from outside, while the live read model continues', async () => {
    const { outcome, open } = await standingRebuild();
    expect(await admin.pause('tokens')).toBe('rebuild');
    open();
    await vault.reached(await vault.append(...many(5, 'meanwhile')), ['tokens']);
    expect(await statusOf('tokens')).toMatchObject({ status: 'live', rebuild: { status: 'paused' } });
    expect(await admin.resume('tokens')).toBe('rebuild');
    expect(await outcome).toBe('swapped');
    expect((await contentOf(vault, tokens))['token']).toHaveLength(105);
  });

  it('is done by one process at a time', async () => {
    const { outcome, open } = await standingRebuild();
    await expect(admin.rebuild('tokens')).rejects.toThrow('is being rebuilt by another process');
    open();
    expect(await outcome).toBe('swapped');
  });

  it('names the event that it cannot apply, and leaves the live read model serving', async () => {
    vault.start({ projections: [tokens] });
    const poison = tokenCreated('token-25');
    await vault.reached(await vault.append(...many(25), poison), ['tokens']);
    const strict: Projection = {
      ...tokens,
      on: {
        ...tokens.on,
        TokenCreated: (created) => {
          if (created.id === poison.id) throw new RangeError('no');
          return tokens.on.TokenCreated?.(created) ?? [];
        },
      },
    };
    const stricter = createProjectionAdmin({
      store: vault.store,
      connectionString: vault.url,
      projections: [strict],
    });
    await expect(stricter.rebuild('tokens')).rejects.toMatchObject({
      code: 'rebuild_failed',
      eventId: poison.id,
    });
    expect(await statusOf('tokens')).toMatchObject({
      status: 'live',
      rebuild: { status: 'failed', errorEventId: poison.id, errorCode: 'RangeError', position: '25' },
    });
    expect(await admin.rebuild('tokens')).toBe('swapped');
  });

  it('shows readers no missing rows, no mixed and no older state while writes continue', async () => {
    vault.start({ projections: [tokens] });
    let written = 50;
    await vault.reached(await vault.append(...many(written)), ['tokens']);
    const rebuilding = (async () => {
      for (let round = 0; round < 3; round++) await admin.rebuild('tokens');
    })();
    let isOver = false;
    void rebuilding.finally(() => (isOver = true));
    const reader = await vault.pool.connect();
    const counts: number[] = [];
    while (!isOver) {
      await vault.append(tokenCreated(`more-${written++}`));
      const { rows } = await reader.query<{ tokens: number; counted: number }>({
        name: 'reader',
        text: `select (select count(*)::int from rm_tokens.token) as tokens,
                      (select sum(count)::int from rm_tokens.token_count) as counted`,
      });
      expect(rows[0]?.tokens).toBe(rows[0]?.counted);
      counts.push(rows[0]?.tokens ?? 0);
    }
    reader.release();
    await rebuilding;
    expect(counts).toEqual(counts.toSorted((left, right) => left - right));
    expect(counts[0]).toBeGreaterThanOrEqual(50);
    await vault.reached(await vault.store.head(), ['tokens']);
    expect((await contentOf(vault, tokens))['token']).toHaveLength(written);
  });
});

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
    expect(await admin.rebuild('tokens')).toBe('swapped');
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
    expect(await schemas()).toEqual(['rm_tokens']);
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
    expect(await statusOf('tokens')).toMatchObject({
      status: 'live',
      rebuild: { status: 'failed', errorCode: '22012' },
    });
  });
});

describe('a newer version of a projection', () => {
  const newer: Projection = { ...tokens, version: tokens.version + 1 };

  it('is built while the older one serves, and the older projector then waits', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(30)), ['tokens']);
    await plantToken();
    vault.start({ projections: [newer] });
    await eventually(async () => (await statusOf('tokens'))?.version === newer.version);
    expect(await isPlanted()).toBe(false);
    await vault.reached(await vault.append(...many(3, 'next')), ['tokens']);
    expect(await statusOf('tokens')).toMatchObject({ version: newer.version, generation: 2, status: 'live' });
    expect((await contentOf(vault, tokens))['token']).toHaveLength(33);
  });
});

describe('verifying', () => {
  it('finds no difference in the runner’s tables while the runner continues', async () => {
    vault.start({ projections: [log, tokens] });
    await vault.reached(await vault.append(...many(40), tokenDeleted('token-5')), ['tokens', 'log']);
    for (const name of ['tokens', 'log']) {
      const verified = await admin.verify(name);
      expect(verified).toMatchObject({ isEqual: true, position: '41' });
    }
    expect(await schemas()).toEqual(['rm_tokens']);
  });

  it('finds a planted, a missing and an altered row', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(40)), ['tokens']);
    await vault.rows(`update rm_tokens.token_metadata set value = 'x' where token_id = 'token-7'`);
    await vault.rows(`delete from rm_tokens.token_search_index`);
    await plantToken();
    const verified = await admin.verify('tokens');
    expect(verified?.isEqual).toBe(false);
    expect(verified?.tables).toMatchObject([
      { table: 'token', rows: 41, surplus: 1, missing: 0 },
      { table: 'token_metadata', surplus: 1, missing: 1 },
      { table: 'token_search_index', surplus: 0, missing: 0 },
      { table: 'token_count', surplus: 1, missing: 1 },
    ]);
    expect(await isPlanted()).toBe(true);
  });
});
