import pg from 'pg';
import { AppendUnansweredError } from '../port.ts';
import { asUnavailable } from './connection.ts';

/** SQLSTATE classes of an ended connection, which Postgres may report after it has committed the statement. */
const endedConnectionStates = /^(08|57P0)/;

const isRolledBack = (error: unknown): boolean =>
  error instanceof pg.DatabaseError &&
  error.severity === 'ERROR' &&
  !endedConnectionStates.test(error.code ?? '');

/**
 * The error of an append that Postgres did not confirm. The statement was rolled back only when Postgres reports an ERROR: a PANIC or FATAL may
 * come after the commit is in the WAL, which the recovery then repeats. Its SQLSTATE says nothing, since Postgres makes it of the error of the
 * disk (42501 on one that is read-only). A Postgres that does not speak English (`lc_messages`) has other names for the severity, so there the
 * outcome of all such appends counts as unknown.
 */
export function asAppendFailure(error: unknown): Error {
  if (isRolledBack(error)) return asUnavailable(error);
  const reason = (error as { code?: string } | undefined)?.code ?? 'no code';
  return new AppendUnansweredError(`the event store did not confirm an append: ${reason}`, { cause: error });
}
