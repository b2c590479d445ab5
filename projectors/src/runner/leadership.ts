import { lockKeys, tryHold } from '@token-vault/postgres';
import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from './session.ts';

const pollMs = 500;
/**
 * Waits until this session leads `name`. False when `signal` aborted first. It polls, because a session that waits
 * inside Postgres would hold back vacuum as long as the other session lives. The session of a leader that stands
 * still is ended: its later statements fail at the ended session and at the fence.
 */
export async function becomeLeader(session: Session, name: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    if (await tryToLead(session, name)) return true;
    await pause(pollMs, signal);
  }
  return false;
}

export const tryToLead = (session: Session, name: string): Promise<boolean> =>
  tryHold(session.client, lockKeys.projection(name));

/** Sleeps. Ends early, without an error, when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}
