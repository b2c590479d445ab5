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
