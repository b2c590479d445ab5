import { describe, expect, it } from 'vitest';
import type { EventStore, Position } from '@token-vault/event-store';
import { createProjectionAdmin } from '../src/admin.ts';
import type { Projection } from '../src/projection.ts';
import { tokens } from '../src/projections/index.ts';
import { many, useAdministeredVault, type AdministeredVault } from './administered-vault.ts';
import { sealed, tokenCreated, tokenDeleted, tokenUpdated } from './events.ts';
import { contentOf, eventually } from './vault.ts';

let vault: AdministeredVault;
useAdministeredVault((opened) => (vault = opened));

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
  it('holds at most some 4 MiB of the log at once', async () => {
    vault.start({ projections: [tokens] });
    const data = sealed('x'.repeat(786_432));
    const large = Array.from({ length: 12 }, (_, n) => tokenCreated(`large-${n}`, { data }));
    await vault.reached(await vault.append(...large, ...many(40)), ['tokens']);
    const before = await contentOf(vault, tokens);
    const held: number[] = [];
    await vault.admin.rebuild('tokens', { onProgress: (_position, _until, events) => held.push(events) });
    expect(held.filter((events) => events > 0)).toEqual([4, 4, 4, 10, 10, 10, 10]);
    expect(await contentOf(vault, tokens)).toEqual(before);
  });

  it('gives the content of the log without the planted rows, and leaves no other tables', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(
      await vault.append(...many(40), tokenUpdated('token-3', { metadata: {} }), tokenDeleted('token-5')),
      ['tokens'],
    );
    const before = await contentOf(vault, tokens);
    await vault.plantToken();
    expect(await vault.admin.rebuild('tokens')).toBe('swapped');
    expect(await contentOf(vault, tokens)).toEqual(before);
    expect(await vault.schemas()).toEqual(['rm_tokens']);
    expect(await vault.statusOf('tokens')).toMatchObject({ status: 'live', generation: 2 });
    await vault.reached(await vault.append(tokenCreated('after')), ['tokens']);
    expect((await contentOf(vault, tokens))['token']).toHaveLength(40);
  });

  it('continues where it was killed', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(100)), ['tokens']);
    const kill = new AbortController();
    const first = vault.admin.rebuild('tokens', {
      signal: kill.signal,
      onProgress: (position) => position === '30' && kill.abort(),
    });
    expect(await first).toBe('aborted');
    const seen: Position[] = [];
    expect(await vault.admin.rebuild('tokens', { onProgress: (position) => seen.push(position) })).toBe(
      'swapped',
    );
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
      const outcome = await vault.admin.rebuild('tokens', { onProgress: cut }).catch(() => 'cut');
      if (outcome === 'swapped') break;
    }
    expect((await contentOf(vault, tokens))['token']).toHaveLength(100);
    expect((await vault.admin.verify('tokens'))?.isEqual).toBe(true);
  });

  it('is cancelled from outside, and the live read model does not change', async () => {
    const { outcome, open } = await standingRebuild();
    await vault.plantToken();
    expect(await vault.admin.cancel('tokens')).toBe(true);
    open();
    expect(await outcome).toBe('cancelled');
    expect(await vault.isPlanted()).toBe(true);
    expect(await vault.schemas()).toEqual(['rm_tokens']);
    expect(await vault.admin.cancel('tokens')).toBe(false);
  });

  it('is paused and resumed from outside, while the live read model continues', async () => {
    const { outcome, open } = await standingRebuild();
    expect(await vault.admin.pause('tokens')).toBe('rebuild');
    open();
    await vault.reached(await vault.append(...many(5, 'meanwhile')), ['tokens']);
    expect(await vault.statusOf('tokens')).toMatchObject({ status: 'live', rebuild: { status: 'paused' } });
    expect(await vault.admin.resume('tokens')).toBe('rebuild');
    expect(await outcome).toBe('swapped');
    expect((await contentOf(vault, tokens))['token']).toHaveLength(105);
  });

  it('is done by one process at a time', async () => {
    const { outcome, open } = await standingRebuild();
    await expect(vault.admin.rebuild('tokens')).rejects.toThrow('is being rebuilt by another process');
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
      message: expect.stringMatching(
        /\(TokenCreated of token-[\da-f-]{36}\.token-25, revision 0, at position 26\): RangeError$/,
      ) as string,
    });
    expect(await vault.statusOf('tokens')).toMatchObject({
      status: 'live',
      rebuild: { status: 'failed', errorEventId: poison.id, errorCode: 'RangeError', position: '25' },
    });
    expect(await vault.admin.rebuild('tokens')).toBe('swapped');
  });

  it('shows readers no missing rows, no mixed and no older state while writes continue', async () => {
    vault.start({ projections: [tokens] });
    let written = 50;
    await vault.reached(await vault.append(...many(written)), ['tokens']);
    const rebuilding = (async () => {
      for (let round = 0; round < 3; round++) await vault.admin.rebuild('tokens');
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

describe('a newer version of a projection', () => {
  const newer: Projection = { ...tokens, version: tokens.version + 1 };

  it('is built while the older one serves, and the older projector then waits', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(30)), ['tokens']);
    await vault.plantToken();
    vault.start({ projections: [newer] });
    await eventually(async () => (await vault.statusOf('tokens'))?.version === newer.version);
    expect(await vault.isPlanted()).toBe(false);
    await vault.reached(await vault.append(...many(3, 'next')), ['tokens']);
    expect(await vault.statusOf('tokens')).toMatchObject({
      version: newer.version,
      generation: 2,
      status: 'live',
    });
    expect((await contentOf(vault, tokens))['token']).toHaveLength(33);
  });
});
