import {
  DomainError,
  KnownOutcomeError,
  OutcomeUnknownError,
  UnknownEventError,
} from '@token-vault/contracts';
import { EventStoreUnavailableError } from '@token-vault/event-store';

/**
 * Codes of Postgres: connection lost or refused, shutting down, no resources, a disk that fails, statement or lock timeout, deadlock, read-only; and no such
 * column, table or schema: a new release starts beside read models of the one before, until its projectors have rebuilt them.
 */
const unavailableCodes =
  /^(08...|53...|57P0.|58...|57014|55P03|40P01|40001|25006|42703|42P01|3F000|ECONN\w+|ETIMEDOUT|EPIPE|ENOENT|ENOTFOUND|EAI_AGAIN|E\w+UNREACH)$/;

/** Messages of errors that pg throws itself; they have no code. */
const unavailableMessages =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered|Client was closed|Cannot use a pool after)/;

/** Whether an error means that the event store or Postgres is not usable now. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof EventStoreUnavailableError) return true;
  if (!(error instanceof Error)) return false;
  const code: unknown = (error as { code?: unknown }).code;
  if (typeof code === 'string' && unavailableCodes.test(code)) return true;
  return unavailableMessages.test(error.message);
}

/** Whether an error becomes a 503, which says that nothing was done. */
const saysNothingDone = (error: unknown): boolean =>
  isUnavailable(error) ||
  error instanceof UnknownEventError ||
  (error instanceof DomainError && error.status === 503 && !(error instanceof KnownOutcomeError));

/** Throws the error of a request that has written, or may have. In place of a 503, which would say that nothing was done: OutcomeUnknownError. */
export function throwAfterWork(error: unknown): never {
  if (saysNothingDone(error)) throw new OutcomeUnknownError('outcome_unknown', { cause: error });
  throw error;
}
