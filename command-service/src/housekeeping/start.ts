import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { TokenErasure } from '../tokens/erasure.ts';
import { Transactions } from '../transactions/handlers.ts';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';
import { signGrants } from '../upgrade/sign-grants.ts';
import { signRecords } from '../upgrade/sign-records.ts';
import { createCheckpoint } from './checkpoint.ts';
import { createEndings } from './endings.ts';
import { createErasures } from './erasures.ts';
import { followErasures } from './follow-log.ts';
import { KeySweep } from './key-sweep.ts';
import { leadWheneverPossible, type LeadingObserver } from './leadership.ts';
import { pause } from './pause.ts';
import { createSweeper, type SweepReport } from './sweeper.ts';

export interface HousekeepingOptions {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  /** The pool of the read models' database, with `housekeepingMigrations` applied. Housekeeping never ends it. */
  readonly pool: Pool;
  /** The same database. One session holds the lock, so the connection may not go through a transaction pooler. */
  readonly connectionString: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onLeading?: LeadingObserver;
  /** Called with the number of keys that were destroyed because their event never came. */
  readonly onKeysSwept?: (keys: number) => void;
  /** The time between two sweeps, in milliseconds. 30,000 by default. */
  readonly intervalMs?: number;
}

export interface Housekeeping {
  /** Runs one sweep now, on any replica. Decisions depend on the log alone, so any number may run at once. */
  readonly runOnce: () => Promise<SweepReport>;
  /** Ends within about a second. The next replica takes over. */
  readonly close: () => Promise<void>;
}

const defaultIntervalMs = 30_000;
/** The pause until the read models of this release exist. */
const notThereYetMs = 500;

/**
 * Ends entities that are past their time, repeats interrupted erasures and destroys keys whose event never came. Every replica may run it, and one of them
 * leads. When the leader dies, another takes over.
 */
export function startHousekeeping(options: HousekeepingOptions): Housekeeping {
  const { store, keyRing, pool, connectionString, clock, logger } = options;
  const { intervalMs = defaultIntervalMs, onLeading, onKeysSwept } = options;
  const abort = new AbortController();
  const outcomes = createTransactionOutcomes(store, clock);
  const erasure = new TokenErasure({ store, keyRing, outcomes });
  const transactions = new Transactions(store, outcomes, erasure);
  const endings = createEndings({ store, keyRing, clock, outcomes, erasure, transactions });
  const sweeper = createSweeper({ pool, keyRing, clock, logger, endings });
  const erasures = createErasures({ keyRing, erasure, outcomes, transactions });
  const keySweep = new KeySweep({ store, keyRing, pool, clock, logger, onSwept: onKeysSwept });
  const checkpoint = createCheckpoint(pool, clock, 'erasure');

  const running = new Set<Promise<SweepReport>>();
  const sweep = (signal: AbortSignal): Promise<SweepReport> => {
    const run = sweeper.sweep(signal).finally(() => running.delete(run));
    running.add(run);
    return run;
  };

  const noteFailure =
    (task: string) =>
    (error: unknown): undefined => {
      logger.warn({ ...errorFields(error), task }, 'a task of housekeeping failed');
    };
  /** `work` gives the pause after it, when that is not the usual one. */
  const regularly = async (
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<number | undefined>,
  ): Promise<void> => {
    while (!signal.aborted) await pause((await work(signal)) ?? intervalMs, signal);
  };

  const leading = leadWheneverPossible(
    { connectionString, name: 'housekeeping', logger, signal: abort.signal, onLeading },
    async (signal) => {
      await Promise.all([
        regularly(signal, () => sweep(signal).then(() => undefined)),
        regularly(signal, () => keySweep.pass(signal).then(() => undefined, noteFailure('key-sweep'))),
        regularly(signal, () => signOlderRecords(options, signal, noteFailure('upgrade'))),
        followErasures({ store, checkpoint, erasures, logger }, signal),
      ]);
    },
  );

  return {
    runOnce: () => sweep(abort.signal),
    async close() {
      abort.abort();
      await leading;
      await Promise.allSettled(running);
    },
  };
}

/** Signs the records of an older release. Gives the pause before the next attempt when the read models do not exist yet. */
async function signOlderRecords(
  options: HousekeepingOptions,
  signal: AbortSignal,
  onFailure: (error: unknown) => undefined,
): Promise<number | undefined> {
  const signed = await signGrants(options, signal).catch(onFailure);
  if (signed !== undefined) await signRecords(options, signal).catch(onFailure);
  return signed === undefined ? notThereYetMs : undefined;
}
