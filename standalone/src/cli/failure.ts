import { DomainError, printable } from '@token-vault/contracts';

/** Ends a command with this one line and status 1. */
export class CommandError extends Error {
  readonly code = 'command_failed';
}

/** Codes of errors whose message is one line for the operator, without stored data. */
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
  'restore_unfinished',
  'migration_failed',
  'unknown_projection',
  'rebuild_under_way',
  'rebuild_failed',
  'temporary_tables_refused',
  'backup_refused',
  'transfer_refused',
  'checkpoints_file',
  'event_store_unavailable',
  'event_missing',
  'position_beyond_head',
]);

/** One line, which cannot control the terminal: a message may name what is stored, such as the keys of rows. */
export const complaintOf = (error: unknown): string => printable(wordsFor(error));

/** A message that may be unsafe is left out: messages of a database can hold the values of a row. */
function wordsFor(error: unknown): string {
  if (error instanceof DomainError) return ofDomain(error);
  if (!(error instanceof Error)) return 'failed';
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string' && explained.has(code)) return error.message;
  const refused = ofSystem(error);
  if (refused !== undefined) return refused;
  const name = error.name === 'Error' ? error.constructor.name : error.name;
  const frame = /^\s+at (.+)$/m.exec(error.stack ?? '')?.[1] ?? 'unknown place';
  return `failed: ${name}${typeof code === 'string' ? ` ${code}` : ''} at ${frame}`;
}

const systemReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or directory',
  EACCES: 'this account may not do that',
  EPERM: 'this account may not do that',
  EEXIST: 'it exists already',
  EISDIR: 'it is a directory',
  ENOTDIR: 'a part of the path is not a directory',
  ENOTEMPTY: 'the directory is not empty',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EROFS: 'the file system is read-only',
  ENAMETOOLONG: 'the name is too long',
  EMFILE: 'too many files are open',
};

/** Messages for errors of the operating system about a file that the operator named. */
function ofSystem(error: NodeJS.ErrnoException): string | undefined {
  const reason = systemReasons[error.code ?? ''];
  return reason === undefined || error.path === undefined ? undefined : `${error.path}: ${reason}`;
}

function ofDomain({ errors, message }: DomainError): string {
  const fields = Object.entries(errors ?? {}).map(([field, reasons]) => `${field} ${reasons.join(', ')}`);
  return fields.length > 0 ? fields.join('; ') : message;
}
