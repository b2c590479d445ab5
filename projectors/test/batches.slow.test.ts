import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventRegistry, type VaultEvent } from '@token-vault/contracts';
import type { Position, RecordedEvent } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import type { Projection } from '../src/projection.ts';
import { applications, log, reactors, tokens } from '../src/projections/index.ts';
import { BatchWriter } from '../src/runner/batch-writer.ts';
import { readOrCreateCheckpoint } from '../src/runner/checkpoint.ts';
import { isFenced } from '../src/runner/failures.ts';
import { openSession, type Session } from '../src/runner/session.ts';
import { histories } from './histories.ts';
import { event, tokenCreated, tokenDeleted, tokenUpdated } from './events.ts';
import { contentOf, openVault, streamOf, type Vault } from './vault.ts';

let vault: Vault;
beforeAll(async () => {
  vault = await openVault();
});
afterAll(() => vault.close());

const sessionFor = (projection: Projection): Promise<Session> =>
  openSession({ connectionString: vault.url, name: 'test', schema: `rm_${projection.name}` });

async function recorded(history: readonly VaultEvent[]): Promise<RecordedEvent[]> {
  const store = createMemoryEventStore({ registry: eventRegistry });
  for (const each of history) await store.append(streamOf(each), [each], 'any');
  const events: RecordedEvent[] = [];
  for await (const each of store.readAll('0' as Position)) events.push(each);
  return events;
}

async function applied(projection: Projection, events: readonly RecordedEvent[], sizes: readonly number[]) {
  await vault.rows('delete from projections.checkpoint where name = $1', [projection.name]);
  const session = await sessionFor(projection);
  const { generation, position } = await readOrCreateCheckpoint(session, projection);
  const writer = new BatchWriter(session, { projection, generation, kind: 'live' }, position);
  for (let start = 0, turn = 0; start < events.length; turn++) {
    const batch = events.slice(start, start + (sizes[turn % sizes.length] ?? 1));
    await writer.write(batch, batch.at(-1)!.position);
    start += batch.length;
  }
  await writer.settle();
  await session.close();
  return contentOf(vault, projection);
}

const transactionId = '00000000-0000-4000-8000-0000000000c1';
const enlisted = { transaction_id: transactionId };
const ended = (type: 'TransactionCommitted' | 'TransactionRolledBack' | 'TransactionExpired') =>
  event(type, { transaction_id: transactionId });
const opened = event('TransactionOpened', {
  transaction_id: transactionId,
  expires_at: '2030-01-01T11:00:00Z',
});
const idsOf = (content: Record<string, unknown[]>) =>
  content['token']?.map((row) => (row as { id: string }).id);

describe('any history', () => {
  for (const projection of [tokens, applications, log, reactors]) {
    it(`gives ${projection.name} the same rows in batches of any size as one by one`, async () => {
      await fc.assert(
        fc.asyncProperty(
          histories,
          fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
          async (history, sizes) => {
            const events = await recorded(history);
            const oneByOne = await applied(projection, events, [1]);
            expect(await applied(projection, events, sizes)).toEqual(oneByOne);
            expect(await applied(projection, events, [1_000])).toEqual(oneByOne);
          },
        ),
        { numRuns: 12 },
      );
    });
  }
});

describe('the ends of transactions', () => {
  it('are forgotten by the time of the latest end, in batches of any size', async () => {
    const end = (id: string, occurredAt: string) =>
      event('TransactionRolledBack', { transaction_id: id }, { occurred_at: occurredAt });
    const events = await recorded([
      end('00000000-0000-4000-8000-0000000000d1', '2026-01-01T12:00:00.000Z'),
      end('00000000-0000-4000-8000-0000000000d2', '2026-01-01T14:00:00.000Z'),
      end('00000000-0000-4000-8000-0000000000d3', '2026-01-08T13:00:00.000Z'),
      end('00000000-0000-4000-8000-0000000000d4', '2026-01-08T11:00:00.000Z'),
      tokenCreated('later', {}, { occurred_at: '2026-01-08T15:00:00.000Z' }),
    ]);
    const kept = async (size: number) =>
      (await applied(tokens, events, [size]))['closed_transaction']?.map((row) =>
        (row as { id: string }).id.slice(-2),
      );
    expect([await kept(1), await kept(2), await kept(100)]).toEqual(Array(3).fill(['d2', 'd3', 'd4']));
  });
});

describe('tokens that are created one after the other', () => {
  const sizes = async () =>
    (
      await vault.rows<{ name: string; pages: number }>(
        `select c.relname as name, c.relpages as pages from pg_class c join pg_index i on i.indexrelid = c.oid
         where i.indrelid = 'rm_tokens.token'::regclass and c.relname like '%seq%' order by 1`,
      )
    ).map(({ name, pages }) => ({ name, pages }));

  it('fill the pages of the indexes that lists use', async () => {
    const created = await recorded(
      Array.from({ length: 3_000 }, (_, index) => tokenCreated(`token-${index}`)),
    );
    await applied(tokens, created, [100]);
    await vault.rows('analyze rm_tokens.token');
    const filled = await sizes();
    await vault.rows('reindex table rm_tokens.token');
    const densest = await sizes();
    expect(filled).toHaveLength(3);
    for (const [index, { name, pages }] of filled.entries())
      expect(pages, name).toBeLessThan((densest[index]?.pages ?? 0) * 1.3);
  });
});

describe.each([[1], [2], [100]])('in batches of %i, an enlisted event', (size) => {
  it('takes effect at the commit, in order, and not before', async () => {
    const history = [
      opened,
      tokenCreated('a', {}, enlisted),
      tokenCreated('plain'),
      tokenUpdated('a', { token_type: 'token', containers: ['/moved/'] }, enlisted),
      tokenCreated('b', {}, enlisted),
      tokenDeleted('b', enlisted),
    ];
    const before = await recorded(history);
    const open = await applied(tokens, before, [size]);
    expect(idsOf(open)).toEqual(['plain']);
    expect(open).toEqual(await applied(tokens, before, [1]));
    const after = await recorded([...history, ended('TransactionCommitted')]);
    const content = await applied(tokens, after, [size]);
    expect(idsOf(content)).toEqual(['a', 'plain']);
    expect(content['token']?.[0]).toMatchObject({ container: '/moved/', seq: 7 });
    expect((await applied(log, after, [size]))['entry']).toHaveLength(7);
    expect(
      await vault.rows(`select seq, ordinal, operation from rm_log.entry where seq = 7 order by ordinal`),
    ).toEqual(
      ['create', 'update', 'create', 'delete', 'commit'].map((operation, ordinal) => ({
        seq: '7',
        ordinal,
        operation,
      })),
    );
    expect(await vault.rows('select from rm_tokens.staged_event')).toEqual([]);
  });

  it.each(['TransactionRolledBack', 'TransactionExpired'] as const)(
    'has no effect after %s',
    async (type) => {
      const events = await recorded([
        opened,
        tokenCreated('a', {}, enlisted),
        ended(type),
        tokenCreated('a'),
      ]);
      expect((await applied(tokens, events, [size]))['token']).toMatchObject([{ id: 'a', seq: 4 }]);
      expect(await vault.rows('select from rm_tokens.staged_event')).toEqual([]);
    },
  );

  it('that comes after the end is dropped', async () => {
    const events = await recorded([
      opened,
      ended('TransactionCommitted'),
      tokenCreated('late', {}, enlisted),
      ended('TransactionCommitted'),
    ]);
    expect(idsOf(await applied(tokens, events, [size]))).toEqual([]);
    expect(await vault.rows('select from rm_tokens.staged_event')).toEqual([]);
  });
});

describe('two writers at one position', () => {
  it('commit one batch between them', async () => {
    const [first] = await recorded([tokenCreated('a')]);
    await applied(tokens, [], [1]);
    const { generation } = await readOrCreateCheckpoint(await sessionFor(tokens), tokens);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 2 }, async () => {
        const session = await sessionFor(tokens);
        const writer = new BatchWriter(
          session,
          { projection: tokens, generation, kind: 'live' },
          '0' as Position,
        );
        try {
          await writer.write([first!], first!.position);
          await writer.settle();
        } finally {
          await session.close();
        }
      }),
    );
    const rejected = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(rejected).toHaveLength(1);
    expect(isFenced(rejected[0]?.reason)).toBe(true);
    expect(idsOf(await contentOf(vault, tokens))).toEqual(['a']);
  });
});
