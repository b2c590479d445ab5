import { statement, type Statement } from './statements.ts';

/**
 * The position of a verification is a setting of its session, which a transaction changes and a rollback restores. Another session can write
 * `projections.rebuild`: with a later position there, the verification would leave out events.
 */
const setting = 'vault.verified_position';

/** SQL for that position, as text. */
export const verifiedPosition = `current_setting('${setting}', true)`;

/** A script that sets it to the beginning of the log. */
export const beginVerification = `select set_config('${setting}', '0', false)`;

/** The fence of a verification. `projections.rebuild` only shows how far it is. */
export const advanceVerification = (name: string, generation: number, to: string): Statement =>
  statement(
    `select projections.advance_rebuild($1, $2, (select position from projections.rebuild where name = $1), $3),
       set_config('${setting}', $3::bigint::text, false)`,
    [name, generation, to],
  );
