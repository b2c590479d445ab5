import type { ReadModelName } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';

/** How far the read models are. */
export interface ReadModelProgress {
  /** False when `timeoutMs` is over or a projection cannot get to `position`. */
  waitFor(position: Position, timeoutMs: number): Promise<boolean>;
  /** `waitFor` for a reader, who may ask for what projections would rather show a moment later. */
  reach(position: Position, timeoutMs: number): Promise<boolean>;
  /** True when the read models are known to be no older than this process has seen them. */
  recovered(timeoutMs: number): Promise<boolean>;
  /** How often the connection was lost: what was read across a loss may be older than what had been seen before it. */
  readonly losses: number;
}

/** Which read models answer (rules.md §1). Who calls is made out by the same watch, in `identify`. */
export interface ReadModelWatch {
  /** @throws UnavailableError when one of them stands still */
  requireMoving(names: readonly ReadModelName[]): Promise<void>;
}

/** Sees to it that every process goes by what was revoked (rules.md §6). */
export interface Revocations {
  /**
   * Resolves when that is certain of the event at `position`: to whether it had been left uncertain before.
   * @throws UnavailableError when it is not certain in time; a repeat may find it so
   */
  confirm(position: Position): Promise<'as usual' | 'was unconfirmed'>;
}
