import { startSealer } from '@token-vault/audit';
import { startHousekeeping } from '@token-vault/command-service';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { measureUnsealed, observeRefusedSeals, observeSweptKeys } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import { tellLeading } from '@token-vault/process';
import type { Pool } from 'pg';
import type { ProcessContext } from './data.ts';
import { startSchemaWatch } from './schema-watch.ts';

/**
 * Background work wherever commands are answered: endings by time, interrupted erasures, keys without events, the seal of the log, the
 * comparison of the schema. Any
 * number of replicas may start it; a lock of Postgres lets one replica do each task.
 */
export function openHousekeeping(
  { settings, logger, metrics, closers }: ProcessContext,
  parts: {
    readonly store: EventStore;
    readonly keyRing: KeyRing;
    readonly readPool: Pool;
    /** Where the sealer keeps the last checkpoints. Undefined: in memory. */
    readonly checkpointsFile: string | undefined;
  },
): void {
  const { store, keyRing, readPool: pool, checkpointsFile } = parts;
  const common = { store, keyRing, pool, clock: systemClock, logger };
  const { databaseUrl: connectionString } = settings;
  const told = { onLeading: tellLeading, onKeysSwept: observeSweptKeys(metrics) };
  closers.addConnection(startHousekeeping({ ...common, connectionString, ...told }), (it) => it.close());
  const onRefused = observeRefusedSeals(metrics);
  const sealer = startSealer({ ...common, checkpointsFile, onRefused });
  measureUnsealed(metrics, () => sealer.unsealedSeconds());
  closers.addConnection(sealer, (it) => it.close());
  closers.addConnection(startSchemaWatch({ pool, logger, metrics }), (it) => it.close());
}
