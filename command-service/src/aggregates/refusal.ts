import { DomainError, InvalidEventError, UnknownEventError } from '@token-vault/contracts';
import { AppendTooLargeError, KeysNotStoredError, RevisionConflictError } from '@token-vault/event-store';

const refusals = [
  RevisionConflictError,
  KeysNotStoredError,
  InvalidEventError,
  UnknownEventError,
  AppendTooLargeError,
  DomainError,
  TypeError,
];

/**
 * Whether a failed append certainly stored nothing. After any other error the events may be stored, so the keys of
 * their sealed values must stay.
 */
export const isRefusal = (error: unknown): boolean => refusals.some((type) => error instanceof type);
