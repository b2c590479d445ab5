/**
 * The database was written by a newer release than this program, which would corrupt tables that it does not know.
 */
export class SchemaTooNewError extends Error {
  readonly code = 'schema_too_new';

  constructor(set: string, found: number, known: number) {
    super(
      `the database schema "${set}" is at ${found}, this release knows up to ${known}: start the newer release`,
    );
    this.name = 'SchemaTooNewError';
  }
}

/** The database has tables that this release does not know: a newer release, or another program, made them. */
export class SchemaUnknownError extends Error {
  readonly code = 'schema_too_new';

  constructor(set: string) {
    super(`the database has the schema "${set}", which this release does not know: start the newer release`);
    this.name = 'SchemaUnknownError';
  }
}

/** A restore into this database was interrupted, so parts of the vault are missing. */
export class RestoreUnfinishedError extends Error {
  readonly code = 'restore_unfinished';

  constructor() {
    super('a restore into this database was cut off: drop the database, and restore into a new one');
    this.name = 'RestoreUnfinishedError';
  }
}

/** An applied migration differs from the one that this program has under the same number. */
export class SchemaMismatchError extends Error {
  readonly code = 'schema_mismatch';

  constructor(message: string) {
    super(message);
    this.name = 'SchemaMismatchError';
  }
}

/**
 * A migration failed and was rolled back. The migrations before it stay applied. `cause` has the reason of Postgres.
 */
export class MigrationError extends Error {
  readonly code = 'migration_failed';

  constructor(label: string, cause: unknown) {
    super(`migration ${label} failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = 'MigrationError';
  }
}
