import type { SessionLock } from './session-locks.ts';

/** The key of an advisory lock: the arguments of `pg_advisory_lock`, as SQL with the parameters `$1` and `$2`. */
export interface LockKey {
  readonly sql: string;
  readonly values: readonly (string | number)[];
}

const numbered = (key: string): LockKey => ({ sql: '$1::bigint', values: [key] });

/** The key of a lock of `tryHold`, for `unlock`. */
export const keyOf = ({ lockClass, name }: SessionLock): LockKey => ({
  sql: '$1::int, hashtext($2)',
  values: [lockClass, name],
});

/**
 * All advisory locks of the vault. A key never changes: during an upgrade, processes of two releases must exclude each other. The numbers
 * are arbitrary, and differ.
 */
export const lockKeys = {
  /** Held while the schema is migrated. */
  migration: numbered('7310579512035182'),
  /** Held by the process that signs checkpoints of the log. */
  auditSealer: numbered('7310579512035183'),
  /** Held by the process that rotates a root key, or the key of a tenant. */
  rotation: (name: string): LockKey => ({
    sql: 'hashtext($1), hashtext($2)',
    values: ['key_ring.rotation', name],
  }),
  /** Shared by the commands that use the Postgres of another command. That command takes it alone before it stops Postgres. */
  commandDatabase: { sql: 'hashtextextended($1, 0)', values: ['vault command database'] },
  /** Held by the process that keeps a projection up to date, or rebuilds it. With heartbeats, as the next two. */
  projection: (name: string): SessionLock => ({ lockClass: 7_310_580, name }),
  /** Held by the process that carries out a task, such as housekeeping. */
  task: (name: string): SessionLock => ({ lockClass: 7_310_581, name }),
  /** Held by the process that does work that is due, such as a delivery. */
  dueWork: (id: string): SessionLock => ({ lockClass: 0x7765_6268, name: id }),
} as const;
