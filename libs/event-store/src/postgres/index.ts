export { completeCopiedLog, copiedLog, logSchema, readLogIdentity } from './backup.ts';
export {
  createEventStoreSchema,
  eventHistoryMigrations,
  eventStoreMigrations,
  type Migration,
} from './migrations.ts';
export { createPostgresEventStore, type PostgresEventStoreOptions } from './postgres-event-store.ts';
