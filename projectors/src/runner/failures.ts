import { EventStoreUnavailableError } from '@token-vault/event-store';
import pg from 'pg';

/** Somebody else moved, paused, failed or replaced the projection: read the checkpoint again. */
export const fencedCode = 'PRJ01';

export class FencedError extends Error {
  readonly code = fencedCode;
  constructor(name: string) {
    super(`projection ${name} has been moved by somebody else`);
  }
}

export const isFenced = (error: unknown): boolean =>
  error instanceof FencedError || sqlState(error) === fencedCode;

/** Connection, conflict, resource, shutdown, system or internal trouble of Postgres: goes by, or needs an operator there. */
const passingStates = /^(08|25|40|53|55|57|58|XX)/;

/** Whether repeating the same work may help; else an event or this program is at fault. */
export function isPassing(error: unknown): boolean {
  if (error instanceof EventStoreUnavailableError || isFenced(error)) return true;
  const state = sqlState(error);
  if (state !== undefined) return passingStates.test(state);
  return isConnectionError(error);
}

/** A short code for status and logs. Never the message: those of Postgres quote values. */
export function failureCode(error: unknown): string {
  const code = sqlState(error) ?? (error as { code?: unknown } | undefined)?.code;
  if (typeof code === 'string' && /^[\w-]{1,64}$/.test(code)) return code;
  return error instanceof Error ? error.name : 'unknown';
}

function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/** pg rejects with plain errors, named only by their texts, when the connection ended under a query. */
function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined) return /^(E[A-Z]+|ERR_SOCKET\w*)$/.test(code);
  return /connection|not queryable|timeout/i.test(error.message) && error.constructor === Error;
}
