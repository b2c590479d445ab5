import type { KeyRing } from '@token-vault/crypto';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { dueCandidates, sources, type Candidate, type SourceName } from './candidates.ts';
import { forEachConcurrently } from './concurrency.ts';
import type { Ending } from './endings.ts';

export interface SweeperOptions {
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'destroyDue'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly endings: Readonly<Record<SourceName, Ending>>;
}

/** The result of one sweep. */
export interface SweepReport {
  /** The number of entities that this sweep ended, by kind. */
  readonly ended: Readonly<Record<SourceName, number>>;
  /** The number of data keys that were destroyed because their time was over. */
  readonly destroyedKeys: number;
  /** The number of entities or queries that failed. The next sweep tries again. */
  readonly failures: number;
}

const pageSize = 200;
const atOnce = 8;
const keysAtOnce = 500;

/** Transactions come first, because their end unlocks tokens. */
const order: readonly SourceName[] = [
  'expiredTransactions',
  'abandonedTransactions',
  'expiredTokens',
  'dueCvcs',
  'expiredApplications',
  'expiredSessions',
  'expiredConsoleSessions',
];

/** Ends all entities whose time is over. The failure of one is logged and does not stop the others. */
export function createSweeper({ pool, keyRing, clock, logger, endings }: SweeperOptions) {
  async function endOne(name: SourceName, candidate: Candidate, now: Date, count: Counts): Promise<void> {
    try {
      if (await endings[name](candidate, now)) count.ended[name] += 1;
    } catch (error) {
      // Without the event store the rest of the sweep would fail too.
      if (error instanceof EventStoreUnavailableError) throw error;
      count.failures += 1;
      const fields = { task: name, tenant_id: candidate.tenantId, ...errorFields(error) };
      logger.warn(fields, 'an expired entity could not be ended');
    }
  }

  async function endAll(name: SourceName, now: Date, signal: AbortSignal, count: Counts): Promise<void> {
    for await (const page of dueCandidates(pool, name, now, pageSize)) {
      await forEachConcurrently(page, atOnce, async (candidate) => {
        if (!signal.aborted) await endOne(name, candidate, now, count);
      });
      if (signal.aborted) return;
    }
  }

  /** A key that is past its time is destroyed, whatever the read models and streams say (rules.md §3). */
  async function destroyDueKeys(now: Date, signal: AbortSignal, count: Counts): Promise<void> {
    while (!signal.aborted) {
      const { length } = await keyRing.destroyDue(now, keysAtOnce);
      count.destroyedKeys += length;
      if (length < keysAtOnce) return;
    }
  }

  return {
    async sweep(signal: AbortSignal): Promise<SweepReport> {
      const now = clock.now();
      const count = newCounts();
      const attempt = async (task: string, work: () => Promise<void>): Promise<void> => {
        if (signal.aborted) return;
        try {
          await work();
        } catch (error) {
          count.failures += 1;
          logger.warn({ task, ...errorFields(error) }, 'a sweep was cut short');
        }
      };
      for (const name of order) await attempt(name, () => endAll(name, now, signal, count));
      await attempt('dueKeys', () => destroyDueKeys(now, signal, count));
      return count;
    },
  };
}

interface Counts {
  readonly ended: Record<SourceName, number>;
  destroyedKeys: number;
  failures: number;
}

const newCounts = (): Counts => ({
  ended: Object.fromEntries(Object.keys(sources).map((name) => [name, 0])) as Record<SourceName, number>,
  destroyedKeys: 0,
  failures: 0,
});
