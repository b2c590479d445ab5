import type { EventRegistry } from '@token-vault/contracts';
import { untilAborted } from '../notifier.ts';
import { comparePositions, PositionBeyondHeadError, type EventBatch, type Position } from '../port.ts';
import { readHead, readLogPage, type Page, type Queryable } from './reader.ts';
import type { Tail } from './tail.ts';

export interface SubscriptionSource {
  readonly tail: Tail;
  readonly database: Queryable;
  readonly registry: EventRegistry;
  readonly maxBatch: number;
}

/**
 * The log after `after`, then live: from the tail's recent events when they include `after`, else page by page from the log until they do.
 */
export async function* follow(
  source: SubscriptionSource,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, void> {
  const { tail, maxBatch } = source;
  const isOver = () => signal.aborted || tail.isClosed;
  await untilAborted(tail.ready, signal);
  if (!isOver() && comparePositions(after, tail.head) > 0) await refuseBeyondHead(source, after, signal);
  let position = after;
  let isCaughtUp = false;
  while (!isOver()) {
    if (tail.failure) throw tail.failure;
    const recent = tail.read(position, maxBatch);
    if (!recent) {
      position = yield* catchUp(source, position, signal);
      isCaughtUp = position === tail.head;
    } else if (isCaughtUp && recent.events.length === 0) {
      await tail.changed.wait(signal);
    } else {
      ({ position, isCaughtUp } = recent);
      yield recent;
    }
  }
}

/** A tail that other subscribers already use may be a moment behind the log: only the log can decide. */
async function refuseBeyondHead(
  { database }: SubscriptionSource,
  after: Position,
  signal: AbortSignal,
): Promise<void> {
  const head = await untilAborted(readHead(database), signal);
  if (head && comparePositions(after, head) > 0) throw new PositionBeyondHeadError(after, head);
}

/** Reads the log until the tail can continue, or the subscription has ended. Returns the position reached. */
async function* catchUp(
  source: SubscriptionSource,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, Position> {
  const { tail } = source;
  let position = after;
  let reading: Promise<Page> | undefined = readBehind(source, position);
  while (reading && !tail.isClosed && !tail.failure) {
    const page: Page | undefined = await untilAborted(reading, signal);
    if (!page) return position;
    position = page.events.at(-1)?.position ?? position;
    // The next page is read while the subscriber handles this one: one page ahead, never more.
    const isBehind: boolean = !page.failure && page.end !== undefined && !tail.read(position, 1);
    reading = isBehind ? readBehind(source, position) : undefined;
    if (page.events.length > 0) yield { events: page.events, position, isCaughtUp: position === tail.head };
    if (page.failure) throw page.failure;
  }
  return position;
}

function readBehind(
  { database, registry, tail, maxBatch }: SubscriptionSource,
  after: Position,
): Promise<Page> {
  const page = readLogPage(database, registry, { after, until: tail.head, maxEvents: maxBatch });
  // The reader of the page gets its error. If the subscriber has left meanwhile, the error would be unhandled.
  page.catch(() => undefined);
  return page;
}
