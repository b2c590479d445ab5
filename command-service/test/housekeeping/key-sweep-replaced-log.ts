import { randomUUID } from 'node:crypto';
import {
  comparePositions,
  parsePosition,
  startPosition,
  type EventStore,
  type StoredEvent,
} from '@token-vault/event-store';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { aToken, type KeySweepTest } from './key-sweep-setup.ts';

const foreign = 'the log is not the one of before: keys made until now stay';

async function* none(): AsyncGenerator<never> {}

/** The log without its events from now on, as an older copy that was put in its place. */
const older = (store: EventStore, last?: StoredEvent): EventStore => ({
  ...store,
  append: () => Promise.reject(new Error('nothing is appended to a doubtful log')),
  end: () => Promise.resolve(last?.position ?? startPosition),
  async *readStoredBackwards() {
    if (last) yield [last];
  },
  readStoredStream: none,
});

async function lastEventOf(log: EventStore): Promise<StoredEvent | undefined> {
  for await (const [event] of log.readStoredBackwards()) return event;
  return undefined;
}

/** The sweep leaves keys when an operator or an attacker has replaced the log. */
export function describeReplacedLogs(sweep: KeySweepTest): void {
  const { pass, passes, tokenStream, hasKey, cutOff } = sweep;

  describe('of a log that is not the one of before', () => {
    it.each(['an empty log', 'another log, or an older one that has grown'])(
      'leaves all keys: %s',
      async (replacement) => {
        const { log } = sweep.vault;
        const lost = await cutOff('before');
        await pass();
        const last = await lastEventOf(log);
        const other = last && { ...last, id: randomUUID(), position: last.position };
        expect(await pass(older(log, replacement === 'an empty log' ? undefined : other))).toBe(0);
        // Also when the newer log is back.
        expect((await pass()) + (await passes())).toBe(0);
        expect(await hasKey(lost)).toBe(true);
        expect(sweep.messages[0]).toEqual(foreign);
      },
    );

    it('leaves all keys when only events since the last pass are missing', async () => {
      const { log } = sweep.vault;
      const lost = await cutOff('before');
      await pass();
      const marked = await lastEventOf(log);
      await sweep.vault.create(aToken);
      await sweep.house.settle();
      const short = { ...older(log, marked), readStoredStream: log.readStoredStream.bind(log) };
      expect(await pass(short)).toBe(0);
      expect(await hasKey(lost)).toBe(true);
      expect(sweep.messages).toEqual([foreign]);
    });

    it('leaves a key of a stream that lacks events', async () => {
      const { log, pool, principal } = sweep.vault;
      const lost = await cutOff('before');
      await sweep.vault.create({ ...aToken, id: lost });
      await sweep.vault.create(aToken);
      await sweep.house.settle();
      await pass();
      const truncated: EventStore = {
        ...log,
        async *readStoredStream(stream, range) {
          for await (const event of log.readStoredStream(stream, range))
            if (stream !== tokenStream(lost) || event.revision > 0) yield event;
        },
      };
      // The first pass adds an event to a stream that seems to be empty, and gets its place. The second reads it.
      const after: EventStore['append'] = (stream, events) => log.append(stream, events, 'exists');
      expect(await pass({ ...truncated, append: after })).toBe(0);
      await pool.query(`update housekeeping.key_sweep set after = '00000000-0000-0000-0000-000000000000'`);
      await pass(truncated);
      const { rowCount } = await pool.query(
        'select from key_ring.data_key where tenant_id = $1 and entity = $2',
        [principal.tenant.id, `token:${lost}`],
      );
      expect(rowCount).toBe(2);
      expect(sweep.messages).not.toContain(foreign);
    });

    it('leaves a key when the log is replaced while the key is looked at', async () => {
      const { log } = sweep.vault;
      const lost = await cutOff('before');
      await pass();
      let isReplaced = false;
      const replaced: EventStore = {
        ...log,
        async append(...given) {
          isReplaced = true;
          return log.append(...given);
        },
        readStoredStream: (...given) => (isReplaced ? none() : log.readStoredStream(...given)),
      };
      expect(await pass(replaced)).toBe(0);
      expect(isReplaced).toBe(true);
      expect(await hasKey(lost)).toBe(true);
      expect(sweep.messages).toEqual([foreign]);
    });
  });
}

/** Events of other applications behind the last event of the vault are no sign of a replaced log. */
export function describeSharedServer(sweep: KeySweepTest): void {
  const { pass, cutOff, hasKey } = sweep;
  it('sweeps while read models have passed events of another application', async () => {
    const lost = await cutOff('before');
    const head = await sweep.vault.log.head();
    await sweep.writeForeignEvents?.();
    await waitUntil(async () => {
      const { rows } = await sweep.vault.pool.query<{ position: string }>(
        'select max(position)::text as position from projections.checkpoint',
      );
      return comparePositions(parsePosition(rows[0]?.position ?? '0'), head) > 0;
    });
    expect((await pass()) + (await pass())).toBe(1);
    expect(await hasKey(lost)).toBe(false);
    expect(sweep.messages).not.toContain(foreign);
  });
}
