import { attemptOnce, PermissionExpiredError, type ArrivingAnswer, type Attempt } from './attempt.ts';
import { asEgressError } from './failures.ts';
import type { Hop } from './redirects.ts';

/**
 * Decides whether a request may leave, and may give further headers for it, such as a signature. Called before each attempt, and again when
 * the connection took long: the first byte leaves at most 100 ms after the decision, with the headers that this call gave. The request fails
 * with the error of this function.
 */
export type Permit = () => Promise<Hop['headers'] | void>;

/** A decision to send is used for no longer than this. A look-up, a connection or a handshake may take seconds. */
const permittedMs = 100;
/** On an open connection the next attempt leaves at once. This many attempts fail only when the server closes the connection each time. */
const attempts = 5;

/** Gives the answer as soon as its head has arrived. @throws EgressError, or the error of `permit` */
export async function ask(
  attempt: Omit<Attempt, 'startsUntilMs'>,
  permit: Permit | undefined,
): Promise<ArrivingAnswer> {
  if (!permit) return attemptOnce({ ...attempt, startsUntilMs: Infinity });
  for (let count = 1; ; count += 1) {
    const further = (await permit()) ?? [];
    const hop = { ...attempt.hop, headers: [...attempt.hop.headers, ...further] };
    try {
      return await attemptOnce({ ...attempt, hop, startsUntilMs: performance.now() + permittedMs });
    } catch (error) {
      if (!(error instanceof PermissionExpiredError)) throw error;
      if (count === attempts) throw asEgressError(error, attempt.signal);
    }
  }
}
