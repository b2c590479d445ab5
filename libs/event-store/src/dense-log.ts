import type { EventRegistry } from '@token-vault/contracts';
import { decodeEvents, type DecodedEvents } from './codec.ts';
import { comparePositions, EventMissingError, type Position, type StoredEvent } from './port.ts';

const following = (position: Position): string => (BigInt(position) + 1n).toString();

/** For a log whose positions are dense. As `decodeEvents`, of a stretch after `after`; a missing event is a failure like one that cannot be read. */
export function decodeFollowing(
  registry: EventRegistry,
  after: Position,
  stored: readonly StoredEvent[],
): DecodedEvents {
  const gap = gapAfter(after, stored);
  if (!gap) return decodeEvents(registry, stored);
  return {
    failure: new EventMissingError(gap.missing),
    ...decodeEvents(registry, stored.slice(0, gap.index)),
  };
}

/** @throws EventMissingError unless `reached` is not before `until` */
export function requireReached(reached: Position, until: Position): void {
  if (comparePositions(reached, until) < 0) throw new EventMissingError(following(reached));
}

/** Positions ascend, so one comparison tells that a stretch has no gap. */
function gapAfter(after: Position, stored: readonly StoredEvent[]) {
  const last = stored.at(-1);
  if (!last || BigInt(last.position) - BigInt(after) === BigInt(stored.length)) return undefined;
  const place = (index: number): Position => stored[index - 1]?.position ?? after;
  const index = stored.findIndex(({ position }, at) => position !== following(place(at)));
  return { index, missing: following(place(index)) };
}
