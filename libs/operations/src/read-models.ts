import { UnavailableError, ValidationError, type Operation } from '@token-vault/contracts';
import { parsePosition, type Position } from '@token-vault/event-store';
import type { Answer } from './handlers.ts';
import type { ReadModelProgress, Revocations } from './progress.ts';

/** How long an answer waits for the read models (architecture.md, Reading your own writes). */
const waitMs = 2000;

/**
 * The read models can be asked: the one that callers are made of for every operation, the others for what answers from them.
 * @throws UnavailableError
 */
export async function requireReadModels(progress: ReadModelProgress): Promise<void> {
  if (!(await progress.recovered(waitMs)))
    throw new UnavailableError('The read models are catching up after a loss of their database.');
}

/** What waited for a new connection may have read what a crashed database was set back to. @throws UnavailableError */
export function requireNothingLost(progress: ReadModelProgress, losses: number): void {
  if (progress.losses !== losses)
    throw new UnavailableError('The database of the read models was lost meanwhile.');
}

/** Of a query that names what it must show at least. @throws ValidationError, UnavailableError */
export async function waitForGivenPosition(
  progress: ReadModelProgress,
  operation: Operation,
  given: string | undefined,
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
  if (!(await progress.reach(position, waitMs)))
    throw new UnavailableError('The read models have not reached SVC-POSITION yet.');
}

/** Whether the read models show what the answer says, or do so in time. */
export const isShown = async (progress: ReadModelProgress, { position }: Answer): Promise<boolean> =>
  position === undefined || progress.waitFor(position, waitMs);

/** After a write to one of these, what is cached of callers may be old. */
const entitiesAffectingAuthentication: ReadonlySet<string> = new Set(['application', 'session', 'tenant']);

/**
 * Makes what the answer says visible to any later read, on any replica, before it leaves. Gives whether it is.
 * A revocation is confirmed here. @throws UnavailableError when it cannot be
 */
export async function waitForOwnWrite(
  { progress, revocations, forgetCallers }: OwnWriteDependencies,
  operation: Operation,
  { position, ifConfirmedBefore }: Answer,
  isAsync: boolean,
): Promise<boolean> {
  if (position === undefined || operation.isLoggedOnly) return true;
  const [isVisible, confirmed] = await Promise.all([
    !isAsync && progress.waitFor(position, waitMs),
    operation.isRevocation && revocations.confirm(position),
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
