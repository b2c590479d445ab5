import type { Principal } from '@token-vault/access';
import { OutcomeUnknownError, UnavailableError } from '@token-vault/contracts';
import { isDeepStrictEqual } from 'node:util';
import { admittedMs, admittedNow, type Admitted } from './admission.ts';
import type { Answer } from './handlers.ts';
import { endOf } from './repeats.ts';
import type { RequestContext } from './request-context.ts';

/** The answer, as made with the caller's rights at that moment. */
export interface Made {
  readonly answer: Answer;
  readonly admitted: Admitted;
  /**
   * Makes the answer again for the caller's present rights. Undefined where the rights do not decide what is shown, or the handler checks
   * them itself.
   */
  readonly decideAnew?: ((principal: Principal, before: Answer) => Promise<Answer>) | undefined;
  /** Whether the answer must be made again though the caller has the same rights. Asked when the answer took long. */
  readonly isOvertaken?: (answer: Answer, principal: Principal) => Promise<boolean> | boolean;
}

/** The caller of an answer. */
export interface PresentCaller {
  /** With its present rights. @throws an error in place of the answer, when it may not have one any more */
  principalNow(): Promise<Principal>;
  contextOf(admitted: Admitted): RequestContext;
}

/** An answer or a delivery is made or brought up to date again as often while others change the caller's rights or its tokens. */
export const againAtMost = 4;

/** Rights count for twice as long after each time that the answer was made again, at most for this time. */
const mostFreshMs = 800;

/** A 503 would say that nothing was done. */
const overtaken = ({ position }: Answer): Error =>
  position === undefined
    ? new UnavailableError(
        'The rights of the caller, or the token, change faster than the answer is made; try again.',
      )
    : new OutcomeUnknownError('outcome_unknown');

const haveSameRights = (one: Admitted, other: Admitted): boolean =>
  isDeepStrictEqual(one.principal, other.principal);

/** The present rights of the caller, and whether the answer was decided by other rights, or shows tokens that have changed since. */
async function look(
  { isOvertaken, answer, admitted }: Made,
  freshMs: number,
  caller: PresentCaller,
): Promise<{ readonly now: Admitted; readonly isOutdated: boolean }> {
  const now = await admittedNow(admitted, caller, freshMs);
  if (now === admitted) return { now, isOutdated: false };
  if (!haveSameRights(now, admitted)) return { now, isOutdated: true };
  if (await isOvertaken?.(answer, now.principal)) return { now, isOutdated: true };
  // Reading the tokens of the answer may have taken long.
  const last = await admittedNow(now, caller, freshMs);
  return { now: last, isOutdated: !haveSameRights(last, now) };
}

interface LastLook {
  readonly beganMs: number;
  /** How long rights count. */
  readonly freshMs: number;
  readonly isLast: boolean;
}

/**
 * Whether the answer may leave: the rights are those of `now`, and the look at its tokens, which may wait for the database, began a moment ago.
 * The last look counts in any case.
 */
async function isStillDecided(
  now: Admitted,
  { beganMs, freshMs, isLast }: LastLook,
  caller: PresentCaller,
): Promise<boolean> {
  const last = await admittedNow(now, caller, freshMs);
  return haveSameRights(last, now) && (isLast || performance.now() - beganMs < freshMs);
}

/** Whether a cvc has ended that the answer may hold. */
function hasEnded(answer: Answer, now: () => Date): boolean {
  const endsAtMs = endOf(answer);
  return endsAtMs !== Infinity && endsAtMs <= now().getTime();
}

/** An answer shows only data that the caller may see at the moment when it leaves (ADR 16), and leaves when it is on record. */
export async function asRightsAreNow(made: Made, caller: PresentCaller): Promise<Answer> {
  const { decideAnew } = made;
  let { answer, admitted } = made;
  if (!decideAnew) return answer;
  let freshMs = admittedMs;
  for (let again = 0; ; again += 1) {
    const { now, isOutdated } = await look({ ...made, answer, admitted }, freshMs, caller);
    const { pending } = answer;
    const isLate = now !== admitted;
    let { atMs, principal } = now;
    if (isOutdated || hasEnded(answer, () => caller.contextOf(now).now)) {
      if (again >= againAtMost) throw overtaken(answer);
      // On a busy machine every decision may take longer.
      freshMs = Math.min(2 * freshMs, mostFreshMs);
      answer = await decideAnew(now.principal, answer);
      ({ atMs, principal } = answer.decided ?? now);
    } else {
      if (!pending) return answer;
      const context = caller.contextOf(now);
      // A page can wait for its tenant's turn, or for its masks, for seconds.
      const isLast = again >= againAtMost;
      const beganMs = performance.now();
      const isRenewed = isLate && (await pending.renew(context, isLast));
      if (!isRenewed || isLast) {
        const ready = pending.answer();
        if (!ready) await pending.record(context);
        else if (await isStillDecided(now, { beganMs, freshMs, isLast }, caller)) return ready;
      }
    }
    admitted = { atMs, principal };
  }
}
