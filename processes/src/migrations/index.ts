export {
  MigrationError,
  RestoreUnfinishedError,
  SchemaMismatchError,
  SchemaTooNewError,
  SchemaUnknownError,
} from './errors.ts';
export { hasMigrations, migrationTables, readApplied, type Migration, type MigrationSet } from './applied.ts';
export { finishRestore, isMigrated, migrate, unfinishedRestore } from './migrate.ts';
