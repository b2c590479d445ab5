import { housekeepingMigrations } from '@token-vault/command-service';
import { authenticationMigrations } from '@token-vault/authentication';
import { keyRingMigrations } from '@token-vault/crypto';
import { eventHistoryMigrations, eventStoreMigrations } from '@token-vault/event-store/postgres';
import { projectorMigrations } from '@token-vault/projectors';
import { invocationFeedMigrations } from '@token-vault/reactor-runner';
import { idempotencyMigrations } from '@token-vault/idempotency';
import type { MigrationSet } from './migrations/index.ts';
import { missMigrations } from './misses.ts';

/** All tables except those of read models, which their projections make. The same for every event store. */
export const schema: readonly MigrationSet[] = [
  { name: 'event-store', migrations: eventStoreMigrations },
  { name: 'events', migrations: eventHistoryMigrations },
  { name: 'key-ring', migrations: keyRingMigrations },
  { name: 'projectors', migrations: projectorMigrations },
  { name: 'housekeeping', migrations: housekeepingMigrations },
  { name: 'invocations', migrations: invocationFeedMigrations },
  { name: 'idempotency', migrations: idempotencyMigrations },
  { name: 'authentication', migrations: authenticationMigrations },
  { name: 'misses', migrations: missMigrations },
];
