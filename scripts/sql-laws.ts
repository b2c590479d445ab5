/** SQL that is written in one folder only. `npm run deps` checks it. */
interface SqlLaw {
  readonly name: string;
  readonly folder: string;
  readonly pattern: RegExp;
  /** Follows the name of a file that breaks the law. */
  readonly message: string;
}

export const logLaw: SqlLaw = {
  name: 'law-of-the-log',
  folder: 'libs/event-store/src/postgres/',
  // The schema of the log, as SQL names it. Does not match `event_store_unavailable` and the key of a health check.
  pattern: /\bevent_store\b(?!:)/,
  message: 'names event_store; only the Postgres adapter may name it',
};

/** Locks and listeners of a connection need care when it is lost, which is taken once (docs/explanation/architecture.md). */
export const lockLaw: SqlLaw = {
  name: 'law-of-locks',
  folder: 'libs/postgres/src/',
  pattern: /\bpg_\w*advisory/i,
  message: 'takes an advisory lock; use those of libs/postgres',
};

export const listenerLaw: SqlLaw = {
  name: 'law-of-listeners',
  folder: 'libs/postgres/src/',
  // A statement at the beginning of a text.
  pattern: /["'`]\s*(?:un)?listen\s/i,
  message: 'listens to a channel; use the listener of libs/postgres',
};

/** A setting of the role or of the database must not decide what a statement finds (`VaultClient`). */
export const connectionLaw: SqlLaw = {
  name: 'law-of-connections',
  folder: 'libs/postgres/src/',
  pattern: /\bnew pg\.(?:Client|Pool)\(/,
  message: 'makes a connection to Postgres; use `VaultClient` or `createPool` of libs/postgres',
};

export const sqlLaws = [logLaw, lockLaw, listenerLaw, connectionLaw];

/**
 * Tests alter tables and hold locks directly, and benchmarks fill a log without the adapter. `deploy/` writes the configuration of nginx,
 * which has a directive `listen`; no code of it connects to a database.
 */
const isExempt = (file: string): boolean =>
  file.startsWith('scripts/') ||
  file.startsWith('deploy/') ||
  /^test\/|\/(?:test|bench)\/|\.test\.ts$/.test(file);

const isSource = (file: string): boolean => /\.(ts|sql|mjs|cjs|js)$/.test(file);

/** The files that break the law. Only source files are checked, not documents and deployment files. */
export const filesBreaking = (
  { folder, pattern }: SqlLaw,
  files: readonly string[],
  textOf: (file: string) => string,
): string[] =>
  files.filter(
    (file) => isSource(file) && !isExempt(file) && !file.startsWith(folder) && pattern.test(textOf(file)),
  );
