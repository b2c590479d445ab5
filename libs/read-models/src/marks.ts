import { comparePositions, type Position } from '@token-vault/event-store';
import type { Checkpoint } from './checkpoints.ts';

/** The places of some projections, by which all that wait for these projections are decided. */
export interface Marks {
  /** The position that all of them have passed; undefined while one of them is not known. `everything`: there are none. */
  readonly passed: Position | 'everything' | undefined;
  /** The first position at which one of them stands that is not live; undefined when all are live. */
  readonly stopped: Position | undefined;
}

const first = (one: Position | undefined, other: Position): Position =>
  one === undefined || comparePositions(other, one) < 0 ? other : one;

/** @param names all projections that `isAwaited` when it is undefined */
export function marksOf(
  checkpoints: ReadonlyMap<string, Checkpoint>,
  names: readonly string[] | undefined,
  isAwaited: (name: string) => boolean,
): Marks {
  let [passed, stopped]: (Position | undefined)[] = [];
  for (const [name, { position, status }] of checkpoints) {
    if (!(names?.includes(name) ?? isAwaited(name))) continue;
    passed = first(passed, position);
    if (status !== 'live') stopped = first(stopped, position);
  }
  if (names && !names.every((name) => checkpoints.has(name))) return { passed: undefined, stopped };
  return { passed: passed ?? 'everything', stopped };
}

/** Whether the projections have passed `position`: false when one of them cannot, undefined while that is open. */
export function isPassedBy({ passed, stopped }: Marks, position: Position): boolean | undefined {
  if (stopped !== undefined && comparePositions(stopped, position) < 0) return false;
  if (passed === undefined) return undefined;
  return passed === 'everything' || comparePositions(passed, position) >= 0 ? true : undefined;
}
