export { MigrationError, SchemaMismatchError, SchemaTooNewError } from './errors.ts';
export { isMigrated, migrate, type Migration, type MigrationSet } from './migrate.ts';
