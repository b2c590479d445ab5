import { randomUUID } from 'node:crypto';
import { eventRegistry, type VaultEvent } from '@token-vault/contracts';
import type { Position, RecordedEvent } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Projection } from '../src/projection.ts';
import { log, tokens } from '../src/projections/index.ts';
import { BatchWriter } from '../src/runner/batch-writer.ts';
import { readOrCreateCheckpoint } from '../src/runner/checkpoint.ts';
import { openSession, type Session } from '../src/runner/session.ts';
import type { Statement } from '../src/runner/statements.ts';
import { event, sealed, tokenCreated, tokenUpdated } from './events.ts';
import { contentOf, openVault, streamOf, type Vault } from './vault.ts';

let vault: Vault;
beforeAll(async () => {
  vault = await openVault();
});
beforeEach(() => vault.rows('delete from projections.checkpoint'));
afterAll(() => vault.close());

const mebibyte = 1_048_576;
const [large, small] = [randomUUID(), randomUUID()];
const opened = (id: string) =>
  event('TransactionOpened', { transaction_id: id, expires_at: '2030-01-01T11:00:00Z' });
const committed = (id: string) => event('TransactionCommitted', { transaction_id: id });
const data = sealed('x'.repeat(0.75 * mebibyte));
const written = [
  ...Array.from({ length: 12 }, (_, n) => tokenCreated(`large-${n}`, { data }, { transaction_id: large })),
  tokenUpdated('large-0', { token_type: 'token', containers: ['/moved/'] }, { transaction_id: large }),
];
const many = Array.from({ length: 1_100 }, (_, n) =>
  tokenCreated(`small-${n}`, {}, { transaction_id: small }),
);

async function recorded(history: readonly VaultEvent[]): Promise<RecordedEvent[]> {
  const store = createMemoryEventStore({ registry: eventRegistry });
  for (const each of history) await store.append(streamOf(each), [each], 'any');
  const events: RecordedEvent[] = [];
  for await (const each of store.readAll('0' as Position)) events.push(each);
  return events;
}

const lengthOf = (values: unknown): number => JSON.stringify(values).length;

/** Tells the length of each answer, and of the values of each part of a transaction. */
function measured(session: Session, tell: (length: number) => void): Session {
  return {
    ...session,
    async query(statement) {
      const rows = await session.query(statement);
      tell(lengthOf(rows));
      return rows as never[];
    },
    transactionOf: (parts) => session.transactionOf(told(parts, tell)),
  };
}

async function* told(parts: AsyncIterable<readonly Statement[]>, tell: (length: number) => void) {
  for await (const part of parts) {
    tell(lengthOf(part.map(({ values }) => values)));
    yield part;
  }
}

/** @returns the greatest length of what is read or written at once */
async function write(
  projection: Projection,
  batches: readonly (readonly RecordedEvent[])[],
): Promise<number> {
  const schema = `rm_${projection.name}`;
  const session = await openSession({ connectionString: vault.url, name: 'test', schema });
  let most = 0;
  const tell = (length: number) => void (most = Math.max(most, length));
  try {
    const { generation, position } = await readOrCreateCheckpoint(session, projection);
    const target = { projection, generation, kind: 'live' } as const;
    const writer = new BatchWriter(measured(session, tell), target, position);
    for (const batch of batches) await writer.write(batch, batch.at(-1)!.position);
    await writer.settle();
    return most;
  } finally {
    await session.close();
  }
}

describe.each([
  ['of many bytes', [opened(large), ...written], committed(large)],
  ['of many events', [opened(small), ...many], committed(small)],
])('a commit %s', (_what, before, commit) => {
  it.each([tokens, log])('gives $name, after a restart, the rows of one batch', async (projection) => {
    const events = await recorded([...before, commit]);
    await write(projection, [events]);
    const atOnce = await contentOf(vault, projection);
    // Some or all enlisted events are in the batch of the commit.
    for (const begun of [1, events.length - 3]) {
      await vault.rows('delete from projections.checkpoint');
      await write(projection, [events.slice(0, begun)]);
      const most = await write(projection, [events.slice(begun)]);
      if (begun > 1) expect(most).toBeLessThan(8 * mebibyte);
      expect(await contentOf(vault, projection)).toEqual(atOnce);
    }
  });
});

it('a commit whose last part fails shows nothing, and all of it when it is tried again', async () => {
  const events = await recorded([opened(large), ...written, committed(large)]);
  await write(tokens, [events.slice(0, -1)]);
  const before = await contentOf(vault, tokens);
  await vault.rows(`
    create function rm_tokens.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
    create trigger refuse before insert on rm_tokens.token for each row when (new.id = 'large-11') execute function rm_tokens.refuse()`);
  await expect(write(tokens, [events.slice(-1)])).rejects.toThrow('refused');
  expect(await contentOf(vault, tokens)).toEqual(before);
  await vault.rows('drop function rm_tokens.refuse cascade');
  await write(tokens, [events.slice(-1)]);
  expect(await vault.rows('select id from rm_tokens.token')).toHaveLength(12);
  expect(await vault.rows('select from rm_tokens.staged_event')).toEqual([]);
});
