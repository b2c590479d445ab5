import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { keyOf, type LockKey } from './lock-keys.ts';
import type { SessionLock } from './session-locks.ts';

/**
 * One connection. Its locks end when it ends, for whatever reason. They have no heartbeats, unlike those of `tryHold`. There must be no pooler
 * in transaction mode between the process and Postgres.
 */
type Session = Pick<pg.ClientBase, 'query'>;

async function isGranted(session: Session, call: string, { sql, values }: LockKey): Promise<boolean> {
  const text = `select ${call}(${sql}) as is_granted`;
  const { rows } = await session.query<{ is_granted: boolean }>(text, [...values]);
  return rows[0]?.is_granted === true;
}

/** Whether the session holds the lock now. Does not wait. A session that asks twice must release it twice. */
export const tryLock = (session: Session, key: LockKey): Promise<boolean> =>
  isGranted(session, 'pg_try_advisory_lock', key);

/** `tryLock` of a lock that several sessions may hold, while none holds it alone. */
export const tryLockShared = (session: Session, key: LockKey): Promise<boolean> =>
  isGranted(session, 'pg_try_advisory_lock_shared', key);

/** Waits inside Postgres until the session holds the lock. For short waits: a waiting session holds back vacuum. */
export async function lock(session: Session, { sql, values }: LockKey): Promise<void> {
  await session.query(`select pg_advisory_lock(${sql})`, [...values]);
}

export async function unlock(session: Session, key: LockKey | SessionLock): Promise<void> {
  const { sql, values } = 'sql' in key ? key : keyOf(key);
  await session.query(`select pg_advisory_unlock(${sql})`, [...values]);
}

const pollMs = 100;

export interface WhenHeld<Result> {
  /** How long to wait for the session that holds the lock, in milliseconds. By default it does not wait. */
  readonly waitMs?: number;
  /** Gives the result, or throws, when another session still holds the lock. */
  readonly isHeld: () => Result;
}

/** Runs `work` while a connection of the pool holds the lock. The connection is closed afterwards, which cannot fail to release the lock. */
export async function whileLocked<Result>(
  pool: pg.Pool,
  key: LockKey,
  work: () => Promise<Result>,
  { waitMs = 0, isHeld }: WhenHeld<Result>,
): Promise<Result> {
  const client = await pool.connect();
  try {
    for (const until = performance.now() + waitMs; !(await tryLock(client, key)); await delay(pollMs))
      if (performance.now() >= until) return isHeld();
    return await work();
  } finally {
    client.release(true);
  }
}
