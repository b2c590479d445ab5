import { EventStoreUnavailableError } from '@token-vault/event-store';
import pg from 'pg';

/** Another process moved, paused, failed or replaced the projection: the checkpoint must be read again. */
const fencedCode = 'PRJ01';

export class FencedError extends Error {
  readonly code = fencedCode;
  constructor(name: string) {
    super(`projection ${name} was moved by another process`);
  }
}

export const isFenced = (error: unknown): boolean =>
  error instanceof FencedError || sqlState(error) === fencedCode;

/**
 * SQLSTATE classes of connection, conflict, resource, shutdown, system and internal errors of Postgres. They pass, or
 * an operator must repair Postgres.
 */
const passingStates = /^(08|25|40|53|55|57|58|XX)/;

/** Whether repeating the same work may succeed. If not, the event or this program is the cause. */
export function isPassing(error: unknown): boolean {
  if (error instanceof EventStoreUnavailableError || isFenced(error)) return true;
  const state = sqlState(error);
  if (state !== undefined) return passingStates.test(state);
  return isConnectionError(error);
}

/** A short code for status and logs. The message is never used: messages of Postgres quote values. */
export function failureCode(error: unknown): string {
  const code = sqlState(error) ?? (error as { code?: unknown } | undefined)?.code;
  if (typeof code === 'string' && /^[\w-]{1,64}$/.test(code)) return code;
  return error instanceof Error ? error.name : 'unknown';
}

function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/** When the connection ends during a query, pg rejects with plain errors that only their text identifies. */
function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined) return /^(E[A-Z]+|ERR_SOCKET\w*)$/.test(code);
  return /connection|not queryable|timeout/i.test(error.message) && error.constructor === Error;
}
