export { MigrationError, SchemaMismatchError, SchemaTooNewError } from './errors.ts';
export { migrate, type Migration, type MigrationSet } from './migrate.ts';
