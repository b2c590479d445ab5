import { streams } from '@token-vault/contracts';
import { lockKeys } from '@token-vault/postgres';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { KnownCheckpoints } from '../src/known-checkpoints.ts';
import { startSealer } from '../src/seal-regularly.ts';
import { SealWatch } from '../src/seal-watch.ts';
import { sealLog } from '../src/sealer.ts';
import { openAuditLog, updateOf, type AuditLog, type LogKind } from './audit-log.ts';

const [first, second] = [
  '00000000-0000-4000-8000-000000000001',
  '00000000-0000-4000-8000-000000000002',
] as const;
const minutes = 60_000;
const late = 'the log is not sealed after this position';
const again = 'the log is sealed again, up to this position';

describe.each<LogKind>(['Postgres', 'EventStoreDB'])('the watch over the seal of a log in %s', (kind) => {
  let log: AuditLog;
  let nowMs: number;
  let told: string[];
  let options: Omit<ConstructorParameters<typeof SealWatch>[0], 'known'>;

  beforeEach(async () => {
    log = await openAuditLog(kind, [first, second]);
    nowMs = Date.parse('2030-01-01');
    told = [];
    const nothing = () => undefined;
    const logger = {
      ...{ debug: nothing, info: nothing, warn: nothing },
      error: (_fields: object, message: string) => void told.push(message),
    };
    options = { ...log.sealer, clock: { now: () => new Date(nowMs) }, logger };
  });
  afterEach(() => log.end());

  async function write(...tenants: readonly string[]): Promise<void> {
    for (const tenantId of tenants)
      await log.store.append(streams.tenant(tenantId), [updateOf(tenantId, 'name')], 'any');
  }

  it('tells that a session holds the lock of the sealer, and that it has ended, once each', async () => {
    await write(first);
    const holder = await log.pool.connect();
    await holder.query(`select pg_advisory_lock(${lockKeys.auditSealer.sql})`, [
      ...lockKeys.auditSealer.values,
    ]);
    const sealer = startSealer({ ...options, pool: log.pool, checkpointsFile: undefined, intervalMs: 20 });
    try {
      await write(second);
      nowMs += 4 * minutes;
      await vi.waitUntil(() => told.length > 0);
      nowMs += minutes;
      expect(sealer.unsealedSeconds()).toBe(300);
      holder.release(true);
      await vi.waitUntil(() => told.length > 1);
      expect(told).toEqual([late, again]);
      expect(sealer.unsealedSeconds()).toBe(0);
    } finally {
      await sealer.close();
    }
    expect(told).toEqual([late, again]);
  });

  it('tells nothing in a process whose passes never come to their turn while another process seals', async () => {
    const watch = new SealWatch({ ...options, known: new KnownCheckpoints() });
    const seconds: number[] = [];
    for (let minute = 0; minute < 8; minute++) {
      await write(first, second);
      nowMs += minutes / 2;
      await watch.look();
      seconds.push(watch.unsealedMs() / 1000);
      nowMs += minutes / 2;
      await sealLog(options);
      if (minute === 4) await log.keyRing.destroyAllOfTenant(second);
    }
    expect(seconds).toEqual([30, 60, 60, 60, 60, 60, 60, 60]);
    await watch.look();
    expect(watch.unsealedMs()).toBe(0);
    expect(told).toEqual([]);
  });

  it('tells that passes fail each time, also at one tenant of several', async () => {
    const watch = new SealWatch({ ...options, known: new KnownCheckpoints() });
    await write(first, second);
    const store: typeof log.store = {
      ...log.store,
      append: async (...append) => {
        if (append[0] === streams.audit(second)) throw new Error('refused');
        return log.store.append(...append);
      },
    };
    for (let minute = 0; minute < 6; minute++) {
      await write(first);
      await expect(sealLog({ ...options, store })).rejects.toThrow('refused');
      await watch.look();
      nowMs += minutes;
    }
    expect(told).toEqual([late]);
    await sealLog(options);
    await watch.look();
    expect(told).toEqual([late, again]);
  });

  it.runIf(kind === 'Postgres')(
    'tells that the log is not sealed although the head is set back while it looks',
    async () => {
      await write(first);
      await sealLog(options);
      const sealed = await log.store.head();
      const setHead = (to: string) =>
        log.pool.query(`begin; set local session_replication_role = replica;
          update event_store.head set position = ${to}; commit`);
      const hidden = async <Result>(read: () => Promise<Result>): Promise<Result> => {
        const { rows } = await log.pool.query<{ position: string }>('select position from event_store.head');
        await setHead(sealed);
        return read().finally(() => setHead(rows[0]?.position ?? sealed));
      };
      const atHead = { ...log.store, head: () => hidden(() => log.store.head()) };
      const atPages: typeof log.store = {
        ...log.store,
        async *readStored(...range) {
          const pages = log.store.readStored(...range)[Symbol.asyncIterator]();
          const first = await hidden(() => pages.next());
          if (first.done !== true) yield first.value;
        },
      };
      const watches = [atHead, atPages].map(
        (store) => new SealWatch({ ...options, store, known: new KnownCheckpoints() }),
      );
      for (let minute = 0; minute < 5; minute++) {
        await write(first);
        for (const watch of watches) await watch.look();
        nowMs += minutes;
      }
      expect(watches.map((watch) => watch.unsealedMs() / minutes)).toEqual([5, 5]);
      expect(told).toEqual([late, late]);
    },
  );

  it('tells that it cannot look, and counts a look that does not end', async () => {
    let read: () => Promise<never> = () => Promise.reject(new Error('away'));
    const store = { ...log.store, head: () => read() };
    const watch = new SealWatch({ ...options, store, known: new KnownCheckpoints() });
    nowMs += 2 * minutes;
    await watch.look();
    expect(told).toEqual([]);
    read = () => new Promise<never>(() => undefined);
    void watch.look();
    nowMs += 2 * minutes;
    await watch.look();
    expect(told).toEqual([late]);
    expect(watch.unsealedMs()).toBe(4 * minutes);
  });
});
