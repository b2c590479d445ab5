export {
  MigrationError,
  RestoreUnfinishedError,
  SchemaMismatchError,
  SchemaTooNewError,
  SchemaUnknownError,
} from './errors.ts';
export {
  finishRestore,
  isMigrated,
  migrate,
  unfinishedRestore,
  type Migration,
  type MigrationSet,
} from './migrate.ts';
