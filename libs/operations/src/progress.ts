import type { ReadModelName } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';

/** The positions that the read models have reached. */
export interface ReadModelProgress {
  /** Resolves to false when `timeoutMs` is over, or a projection cannot reach `position`. */
  waitFor(position: Position, timeoutMs: number): Promise<boolean>;
  /** `waitFor` for a reader: asks projections that delay their commits to commit up to `position` at once. */
  reach(position: Position, timeoutMs: number): Promise<boolean>;
  /** Resolves to true when the read models are known to be at least as new as this process has seen them. */
  recovered(timeoutMs: number): Promise<boolean>;
  /**
   * The number of lost connections. Rows read before and after a loss may differ: the later ones may be older, because Postgres may have
   * crashed.
   */
  readonly losses: number;
}

/** Says whether read models may answer (rules.md §1). `identify` uses the same watch to authenticate callers. */
export interface ReadModelWatch {
  /** @throws UnavailableError when one of them has stopped */
  requireMoving(names: readonly ReadModelName[]): Promise<void>;
}

/** Confirms that every process applies a revocation (rules.md §6). */
export interface Revocations {
  /**
   * Resolves when every process applies the revocation in the event at `position` of these streams, or in an earlier one of theirs. Callers whose
   * rights rest on other streams are not affected. The value says whether an earlier attempt had left it
   * unconfirmed.
   * @throws UnavailableError when this is not certain in time; a repeat may confirm it
   */
  confirm(position: Position, streams: readonly string[]): Promise<'as usual' | 'was unconfirmed'>;
}
