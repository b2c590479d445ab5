import { DomainError } from '@token-vault/contracts';

/** Ends a command with this one line and status 1. */
export class CommandError extends Error {
  readonly code = 'command_failed';
}

/** Errors of this code have a message of one line, made for the operator and without stored data. */
const explained = new Set([
  'command_failed',
  'standalone_not_started',
  'postgres_not_started',
  'wrong_root_key',
  'root_key_unusable',
  'root_key_unavailable',
  'rotation_in_progress',
  'tenant_keys_missing',
  'not_erased',
  'schema_too_new',
  'schema_mismatch',
  'migration_failed',
  'unknown_projection',
  'rebuild_under_way',
  'rebuild_failed',
  'backup_refused',
  'transfer_refused',
  'event_store_unavailable',
]);

/** One line. A message that is not known to be safe is left out: a database's own can hold the values of a row. */
export function complaintOf(error: unknown): string {
  if (error instanceof DomainError) return ofDomain(error);
  if (!(error instanceof Error)) return 'failed';
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string' && explained.has(code)) return error.message;
  const name = error.name === 'Error' ? error.constructor.name : error.name;
  const frame = /^\s+at (.+)$/m.exec(error.stack ?? '')?.[1] ?? 'unknown place';
  return `failed: ${name}${typeof code === 'string' ? ` ${code}` : ''} at ${frame}`;
}

function ofDomain({ errors, message }: DomainError): string {
  const fields = Object.entries(errors ?? {}).map(([field, reasons]) => `${field} ${reasons.join(', ')}`);
  return fields.length > 0 ? fields.join('; ') : message;
}
