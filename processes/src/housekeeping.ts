import { startHousekeeping } from '@token-vault/command-service';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { systemClock } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import { startSealer } from './audit/sealer.ts';
import type { ProcessContext } from './data.ts';

/**
 * What goes on beside requests wherever commands are answered: endings by time, interrupted erasures, the seal of the log.
 * Of any number of replicas one does each, by a lock of Postgres.
 */
export function openHousekeeping(
  { settings, logger, closers }: ProcessContext,
  parts: { readonly store: EventStore; readonly keyRing: KeyRing; readonly readPool: Pool },
): void {
  const { store, keyRing, readPool: pool } = parts;
  const common = { store, keyRing, pool, clock: systemClock, logger };
  const { databaseUrl: connectionString, eventStore } = settings;
  closers.add(startHousekeeping({ ...common, connectionString }), (it) => it.close());
  // The seal is of what is stored, byte by byte, which is read in Postgres; see docs/reference/configuration.md.
  if (eventStore.kind === 'postgres') closers.add(startSealer(common), (it) => it.close());
}
