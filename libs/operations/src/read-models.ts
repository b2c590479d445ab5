import type { Principal } from '@token-vault/access';
import { UnavailableError, ValidationError } from '@token-vault/contracts';
import { parsePosition, type Position } from '@token-vault/event-store';
import type { Call } from './admission.ts';
import type { Answer } from './handlers.ts';
import type { ReadModelProgress, Revocations } from './progress.ts';
import { revokedStream } from './revoked-stream.ts';

/** How long an answer waits for the read models (docs/explanation/consistency.md). */
const waitMs = 2000;

/**
 * Checks that the read models can be read: those of authentication for every operation, and those that the operation answers from.
 * @throws UnavailableError
 */
export async function requireReadModels(progress: ReadModelProgress): Promise<void> {
  if (!(await progress.recovered(waitMs)))
    throw new UnavailableError('The read models are catching up after a loss of their database.');
}

/** A request that waited for a new connection may have read rows that a database crash had set back. @throws UnavailableError */
export function requireNothingLost(progress: ReadModelProgress, losses: number): void {
  if (progress.losses !== losses)
    throw new UnavailableError('The database of the read models was lost meanwhile.');
}

/** For a query that names the position it must show at least: waits for it. @throws ValidationError, UnavailableError */
export async function waitForGivenPosition(
  progress: ReadModelProgress,
  { operation, request: { position: given, outOfTurn = (wait) => wait() } }: Call,
): Promise<void> {
  if (given === undefined || operation.service !== 'query') return;
  let position: Position;
  try {
    position = parsePosition(given);
  } catch (cause) {
    throw new ValidationError(
      { 'SVC-POSITION': ['must be a position that this vault has answered'] },
      { cause },
    );
  }
  await outOfTurn(async () => {
    if (!(await progress.reach(position, waitMs)))
      throw new UnavailableError('The read models have not reached SVC-POSITION yet.');
  });
}

/** Whether the read models show the write of the answer, now or in time. */
export const isShown = async (progress: ReadModelProgress, { position }: Answer): Promise<boolean> =>
  position === undefined || progress.waitFor(position, waitMs);

/** After a write to one of these entities, cached callers may be out of date. */
const entitiesAffectingAuthentication: ReadonlySet<string> = new Set(['application', 'session', 'tenant']);

/**
 * Waits until any later read, on any replica, shows the write. Returns whether it does.
 * A revocation is confirmed here. @throws UnavailableError when it cannot be confirmed
 */
export async function waitForOwnWrite(
  { progress, revocations, forgetCallers }: OwnWriteDependencies,
  { operation, request }: Call,
  principal: Principal,
  { position, ifConfirmedBefore, revoked = [] }: Answer,
): Promise<boolean> {
  if (position === undefined || operation.isLoggedOnly) return true;
  const named = revokedStream(operation, principal, request.params);
  const streams = named === undefined ? revoked : [named, ...revoked];
  const [isVisible, confirmed] = await Promise.all([
    !request.isAsync && progress.waitFor(position, waitMs),
    streams.length > 0 && revocations.confirm(position, streams),
  ]);
  if (entitiesAffectingAuthentication.has(operation.entity)) forgetCallers?.();
  if (ifConfirmedBefore && confirmed !== 'was unconfirmed') throw ifConfirmedBefore;
  return isVisible;
}

interface OwnWriteDependencies {
  readonly progress: ReadModelProgress;
  readonly revocations: Revocations;
  readonly forgetCallers?: (() => void) | undefined;
}
