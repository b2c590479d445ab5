/** The database was written by a newer release than this program; running on would corrupt what it does not know. */
export class SchemaTooNewError extends Error {
  readonly code = 'schema_too_new';

  constructor(set: string, found: number, known: number) {
    super(
      `the database schema "${set}" is at ${found}, this release knows up to ${known}: start the newer release`,
    );
    this.name = 'SchemaTooNewError';
  }
}

/** What was applied is not what this program has under the same number. */
export class SchemaMismatchError extends Error {
  readonly code = 'schema_mismatch';

  constructor(message: string) {
    super(message);
    this.name = 'SchemaMismatchError';
  }
}

/** A migration failed and was rolled back; those before it stay applied. `cause` has Postgres' reason. */
export class MigrationError extends Error {
  readonly code = 'migration_failed';

  constructor(label: string, cause: unknown) {
    super(`migration ${label} failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = 'MigrationError';
  }
}
