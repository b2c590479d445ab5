import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EventRegistry, eventRegistry, TokenDeleted, type VaultEvent } from '@token-vault/contracts';
import pg from 'pg';
import type { EventStore, Position } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import type { Projection } from '../src/projection.ts';
import { log, tokens } from '../src/projections/index.ts';
import { event, tenantCreated, tenantId, tokenCreated, tokenDeleted } from './events.ts';
import { contentOf, eventually, openVault, streamOf, type Vault } from './vault.ts';

let vault: Vault;
beforeEach(async () => {
  vault = await openVault();
});
afterEach(() => vault.close());

const many = (count: number, prefix = 'token') =>
  Array.from({ length: count }, (_, index) => tokenCreated(`${prefix}-${index}`));

const countTokens = async () =>
  (await vault.rows<{ count: number }>('select count(*)::int from rm_tokens.token'))[0]?.count;

async function statusOf(name: string) {
  const sql =
    'select status, error_event_id, error_code, position from projections.checkpoint where name = $1';
  return (await vault.rows<Record<string, string | null>>(sql, [name]))[0];
}

/** A projection whose handler throws on a token named `poison`. */
const allergic: Projection = {
  ...log,
  name: 'allergic',
  on: {
    ...log.on,
    TokenCreated: (created) => {
      if (created.data.token_id === 'poison') throw new RangeError(`secret of ${created.data.data}`);
      return log.on.TokenCreated?.(created) ?? [];
    },
  },
};

describe('a projector', () => {
  it('stores its progress in the transaction of the batch', async () => {
    const listener = await vault.pool.connect();
    const heard: string[] = [];
    listener.on('notification', ({ payload }) => heard.push(payload ?? ''));
    await listener.query('listen projection_progress');
    vault.start({ projections: [tokens, log] });
    const position = await vault.append(tokenCreated('a'));
    await eventually(() => heard.includes(`tokens:${position}`) && heard.includes(`log:${position}`));
    listener.release(true);
  });

  it('writes events that can wait at once for a reader, also after its connection was lost, or somebody has notified nonsense', async () => {
    vault.start({ projections: [log, tokens], maxHoldMs: 600_000 });
    const readersAreHeard = async () =>
      (
        await vault.rows(
          `select from pg_stat_activity
            where application_name = 'projector hurries' and datname = current_database()
              and state = 'idle' and query = 'listen projection_hurry'`,
        )
      ).length > 0;
    for (const name of ['a', 'b']) {
      const position = await vault.append(tokenCreated(name));
      await vault.reached(position, ['tokens']);
      await eventually(readersAreHeard);
      expect((await statusOf('log'))?.['position']).not.toBe(position);
      await vault.rows(
        `select pg_notify('projection_hurry', 'nonsense'), pg_notify('projection_hurry', $1)`,
        [position],
      );
      await vault.reached(position, ['log']);
      await vault.rows(
        `select pg_terminate_backend(pid, 10_000) from pg_stat_activity
          where application_name = 'projector hurries' and datname = current_database()`,
      );
    }
  });

  it('moves past events that it does not use', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(tenantCreated()), ['tokens']);
  });

  it('continues from its checkpoint after a restart', async () => {
    const first = vault.start({ projections: [log] });
    await vault.reached(await vault.append(...many(10)), ['log']);
    await first.close();
    const position = await vault.append(...many(10, 'later'));
    vault.start({ projections: [log], maxBatch: 3 });
    await vault.reached(position, ['log']);
    expect(await vault.rows('select count(*)::int from rm_log.entry')).toEqual([{ count: 20 }]);
  });

  it('continues when its connection is cut, and applies no event twice', async () => {
    vault.start({ projections: [log], maxBatch: 5 });
    for (let round = 0; round < 5; round++) {
      const position = await vault.append(...many(50, `round-${round}`));
      await vault.rows(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'projector log' and datname = current_database()`,
      );
      await vault.reached(position, ['log']);
    }
    expect(await vault.rows('select count(*)::int from rm_log.entry')).toEqual([{ count: 250 }]);
    expect(await vault.rows('select sum(count)::int as count from rm_log.entry_count')).toEqual([
      { count: 250 },
    ]);
  });

  it('subscribes again when the event store was unavailable', async () => {
    let failures = 3;
    const flaky: EventStore = {
      ...vault.store,
      async *subscribe(after, signal, options) {
        for await (const batch of vault.store.subscribe(after, signal, options)) {
          yield batch;
          if (failures-- > 0) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
        }
      },
    };
    vault.start({ store: flaky, projections: [tokens], maxBatch: 2 });
    await vault.reached(await vault.append(...many(9)), ['tokens']);
    expect(await countTokens()).toBe(9);
    expect(failures).toBeLessThan(0);
  });

  it('replaces characters that Postgres text cannot hold, and continues', async () => {
    vault.start({ projections: [tokens] });
    const hostile = 'a\0b\ud800c\\u0000';
    await vault.reached(await vault.append(tokenCreated('a', { metadata: { hostile } })), ['tokens']);
    expect(await vault.rows('select value from rm_tokens.token_metadata')).toEqual([
      { value: 'a\ufffdb\ufffdc\\u0000' },
    ]);
  });

  it('accepts metadata longer than an index row', async () => {
    vault.start({ projections: [tokens] });
    const long = Array.from({ length: 1000 }, (_, index) =>
      String.fromCodePoint(0x4e00 + ((index * 7919) % 20000)),
    );
    const position = await vault.append(tokenCreated('a', { metadata: { long: long.join('') } }));
    await vault.reached(position, ['tokens']);
  });
});

describe('an event that cannot be applied', () => {
  it('stops its projection there, is named by id only, and does not delay other projections', async () => {
    const poison = tokenCreated('poison');
    const before = await vault.append(...many(7));
    vault.start({ projections: [allergic, tokens] });
    const position = await vault.append(poison, ...many(5, 'after'));
    await vault.reached(position, ['tokens']);
    await eventually(async () => (await statusOf('allergic'))?.['status'] === 'failed');
    expect(await statusOf('allergic')).toEqual({
      status: 'failed',
      error_event_id: poison.id,
      error_code: 'RangeError',
      position: before,
    });
    expect(await vault.rows('select count(*)::int from rm_allergic.entry')).toEqual([{ count: 7 }]);
  });

  it('is retried by a new process', async () => {
    const first = vault.start({ projections: [allergic] });
    const position = await vault.append(tokenCreated('poison'), tokenCreated('b'));
    await eventually(async () => (await statusOf('allergic'))?.['status'] === 'failed');
    await first.close();
    vault.start({ projections: [{ ...allergic, on: log.on }] });
    await vault.reached(position, ['allergic']);
    expect(await statusOf('allergic')).toMatchObject({
      status: 'live',
      error_event_id: null,
      error_code: null,
    });
    expect(await vault.rows('select entity_id from rm_allergic.entry order by seq')).toEqual([
      { entity_id: 'poison' },
      { entity_id: 'b' },
    ]);
  });

  it('may be one that Postgres refuses', async () => {
    const twice = tokenCreated('a');
    vault.start({ projections: [tokens] });
    await vault.append(tokenCreated('a'), tokenCreated('b'), twice, tokenCreated('c'));
    await eventually(async () => (await statusOf('tokens'))?.['status'] === 'failed');
    expect(await statusOf('tokens')).toMatchObject({
      error_event_id: twice.id,
      error_code: '23505',
      position: '2',
    });
    expect(await countTokens()).toBe(2);
  });

  it('may be one that this release does not know', async () => {
    await vault.append(tokenCreated('a'));
    const known = createMemoryEventStore({ registry: eventRegistry, log: vault.log });
    vault.log.events.push({ ...vault.log.events[0]!, type: 'TokenPraised', position: '2' as Position });
    vault.start({ store: known, projections: [tokens] });
    await eventually(async () => (await statusOf('tokens'))?.['status'] === 'failed');
    expect(await statusOf('tokens')).toMatchObject({ error_code: 'unknown_event', position: '1' });
  });

  it('may be in another log than the checkpoint', async () => {
    const first = vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await first.close();
    vault.start({ store: createMemoryEventStore({ registry: eventRegistry }), projections: [tokens] });
    await eventually(async () => (await statusOf('tokens'))?.['error_code'] === 'position_beyond_head');
  });
});

describe('two projectors', () => {
  it('lose and repeat no event while leadership moves from one to the other', async () => {
    vault.start({ projections: [log, tokens], maxBatch: 4 });
    vault.start({ projections: [log, tokens], maxBatch: 7 });
    let position = '0' as Position;
    for (let round = 0; round < 8; round++) {
      position = await vault.append(...many(20, `r${round}`), tokenDeleted(`r${round}-3`));
      await vault.rows(
        `select pg_terminate_backend(pid) from pg_stat_activity a
          where application_name like 'projector %' and datname = current_database()
            and exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory')`,
      );
    }
    await vault.reached(position, ['log', 'tokens']);
    expect(await vault.rows('select count(*)::int from rm_log.entry')).toEqual([{ count: 168 }]);
    expect(await countTokens()).toBe(152);
    expect(await vault.rows('select count::int from rm_tokens.token_count')).toEqual([{ count: 152 }]);
  });

  it('are fenced from each other even if both have the role of leader', async () => {
    const stop = vault.start({ projections: [log] });
    await vault.reached(await vault.append(...many(3)), ['log']);
    // Another process moved the checkpoint, so the next batch of the first one must not count.
    await vault.rows(`update projections.checkpoint set generation = generation + 1 where name = 'log'`);
    await vault.reached(await vault.append(...many(3, 'next')), ['log']);
    await stop.close();
    expect(await vault.rows('select count(*)::int from rm_log.entry')).toEqual([{ count: 6 }]);
  });

  it('hand over leadership without an operator', async () => {
    const first = vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(2)), ['tokens']);
    vault.start({ projections: [tokens] });
    await first.close();
    await vault.reached(await vault.append(...many(2, 'next')), ['tokens']);
    expect((await contentOf(vault, tokens))['token']).toHaveLength(4);
  });
});

describe('a paused projection', () => {
  it('keeps its position while others continue, until it is set live', async () => {
    vault.start({ projections: [tokens, log] });
    const before = await vault.append(tokenCreated('a'));
    await vault.reached(before, ['tokens']);
    await vault.rows(`update projections.checkpoint set status = 'paused' where name = 'tokens'`);
    const position = await vault.append(event('TenantDeleted', { tenant_id: tenantId }));
    await vault.reached(position, ['log']);
    expect(await statusOf('tokens')).toMatchObject({ status: 'paused', position: before });
    await vault.rows(`update projections.checkpoint set status = 'live' where name = 'tokens'`);
    await vault.reached(position, ['tokens']);
    expect(await countTokens()).toBe(0);
    expect(await vault.rows('select from rm_tokens.token_count')).toEqual([]);
  });
});

describe('a release that writes new events', () => {
  // An event type of a later release, which the types of this release do not know.
  const praised = { ...tokenDeleted('a'), type: 'TokenPraised' } as unknown as VaultEvent;
  const newer = () =>
    createMemoryEventStore({
      registry: new EventRegistry([
        ...eventRegistry.definitions,
        { ...TokenDeleted, type: 'TokenPraised', version: 1, upcasters: [] },
      ]),
      log: vault.log,
    });
  async function appendNewer(...events: readonly VaultEvent[]): Promise<Position> {
    const store = newer();
    let position = await store.head();
    for (const each of events) ({ position } = await store.append(streamOf(each), [each], 'any'));
    return position;
  }
  const projections = [log, tokens];

  it('stops no read model when its projectors start first', async () => {
    const changes: (string | undefined)[] = [];
    const listener = new pg.Client(vault.url);
    await listener.connect();
    listener.on('notification', ({ payload }) => changes.push(payload));
    await listener.query('listen projection_status');
    const old = vault.start({ projections });
    await vault.reached(await vault.append(tokenCreated('a')), ['log', 'tokens']);
    vault.start({ store: newer(), projections });
    await old.close();
    const position = await appendNewer(praised, tokenCreated('b'));
    await vault.reached(position, ['log', 'tokens']);
    expect(await countTokens()).toBe(2);
    await listener.end();
    expect(changes).toEqual([]);
  });

  it('stops them when its writers start first, until its projectors run', async () => {
    vault.start({ projections });
    const position = await appendNewer(tokenCreated('a'), praised);
    await eventually(async () => (await statusOf('tokens'))?.['status'] === 'failed');
    vault.start({ store: newer(), projections });
    await vault.reached(position, ['log', 'tokens']);
    expect(await statusOf('tokens')).toMatchObject({ status: 'live' });
  });
});
