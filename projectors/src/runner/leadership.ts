import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from './session.ts';
import { statement } from './statements.ts';

/** Any constant: tells these locks from others in the database. */
const lockClass = 7_310_580;
const pollMs = 500;

/**
 * Waits until this session leads `name`; false when `signal` aborted first. Polls, because a session that waits inside
 * Postgres would hold back vacuum for as long as the other one lives.
 */
export async function becomeLeader(session: Session, name: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    if (await tryToLead(session, name)) return true;
    await pause(pollMs, signal);
  }
  return false;
}

export async function tryToLead(session: Session, name: string): Promise<boolean> {
  const [row] = await session.query<{ locked: boolean }>(
    statement('select pg_try_advisory_lock($1, hashtext($2)) as locked', [lockClass, name]),
  );
  return row?.locked ?? false;
}

/** Sleeps; ends early, without an error, when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}
