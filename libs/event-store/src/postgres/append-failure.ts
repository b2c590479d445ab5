import pg from 'pg';
import { AppendUnansweredError, EventStoreUnavailableError } from '../port.ts';
import { asUnavailable } from './connection.ts';

/** SQLSTATE classes of an ended connection, which Postgres may report after it has committed the statement. */
const endedConnectionStates = /^(08|57P0)/;

/**
 * The error of an append that Postgres did not confirm. The statement was rolled back only when Postgres reports an ERROR: a PANIC or FATAL may
 * come after the commit is in the WAL, which the recovery then repeats. A Postgres that does not speak English (`lc_messages`) has other names
 * for the severity, so there the outcome of all such appends counts as unknown.
 */
export function asAppendFailure(error: unknown): Error {
  const failure = asUnavailable(error);
  if (!(failure instanceof EventStoreUnavailableError)) return failure;
  const isRolledBack =
    error instanceof pg.DatabaseError &&
    error.severity === 'ERROR' &&
    !endedConnectionStates.test(error.code ?? '');
  return isRolledBack ? failure : new AppendUnansweredError(failure.message, { cause: error });
}
