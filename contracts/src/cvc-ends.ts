import { ForbiddenError } from './problems.ts';

/** The earliest of the ends of cvcs, RFC 3339. Undefined when there is none. */
export function firstCvcEnd(ends: readonly (string | undefined)[]): string | undefined {
  return ends
    .filter((end) => end !== undefined)
    .sort((one, other) => Date.parse(one) - Date.parse(other))
    .at(0);
}

/** A cvc is not sent, stored or shown after its end (interface.md, card data shape). `cvcEndsAt`: of the first cvc that was given. */
export const refusalOfEndedCvc = (cvcEndsAt: string | undefined, now: Date): ForbiddenError | undefined =>
  cvcEndsAt !== undefined && Date.parse(cvcEndsAt) <= now.getTime()
    ? new ForbiddenError('A cvc that the request or its code was given has ended.')
    : undefined;
