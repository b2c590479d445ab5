import type { EventRegistry } from '@token-vault/contracts';
import { encodeEvent, isUuid, type EncodedEvent } from './codec.ts';
import {
  AppendTooLargeError,
  maxAppendBytes,
  noRevision,
  type EventStore,
  type ExpectedRevision,
  type ReadStreamOptions,
} from './port.ts';

/** A validated call of `append`. */
export interface AppendRequest {
  readonly stream: string;
  readonly expected: ExpectedRevision;
  readonly events: readonly EncodedEvent[];
  readonly bytes: number;
  /** Data keys that must be stored. */
  readonly keys: readonly string[];
}

const maxStreamNameLength = 512;
const maxRevision = 2 ** 31 - 1;

/** Refuses an append that no store could store, before it is sent. @throws as `EventStore.append`. */
export function checkAppend(
  registry: EventRegistry,
  [stream, events, expected, { keys = [] } = {}]: Parameters<EventStore['append']>,
): AppendRequest {
  checkStreamName(stream);
  if (
    typeof expected === 'number' &&
    !(Number.isInteger(expected) && expected >= noRevision && expected < maxRevision)
  ) {
    throw new TypeError('an expected revision is an integer from -1');
  }
  if (events.length === 0) throw new TypeError('an append holds at least one event');
  if (!keys.every(isUuid)) throw new TypeError('the id of a key is a UUID');
  const encoded = events.map((event) => encodeEvent(registry, event));
  const bytes = encoded.reduce((sum, event) => sum + event.bytes, 0);
  if (bytes > maxAppendBytes) throw new AppendTooLargeError(bytes);
  return { stream, expected: expected === noRevision ? 'no-stream' : expected, events: encoded, bytes, keys };
}

/** `$` begins the system streams of EventStoreDB. Not every store keeps lone surrogates and control characters. */
function checkStreamName(stream: string): void {
  const isValid =
    stream.length > 0 &&
    stream.length <= maxStreamNameLength &&
    stream.isWellFormed() &&
    !stream.startsWith('$') &&
    !/\p{Cc}/u.test(stream);
  if (!isValid)
    throw new TypeError('a stream name is 1 to 512 characters, no control characters, not beginning with $');
}

/** Whether `expected` holds for a stream whose last event has revision `actual` (`noRevision`: the stream has no events). */
export function isExpectationMet(expected: ExpectedRevision, actual: number): boolean {
  switch (expected) {
    case 'any':
      return true;
    case 'no-stream':
      return actual === noRevision;
    case 'exists':
      return actual !== noRevision;
    default:
      return actual === expected;
  }
}

/** A validated call of `readStream`. */
export interface StreamRange {
  readonly stream: string;
  /** Inclusive. For a backward read it may be beyond the end. */
  readonly from: number;
  readonly backwards: boolean;
  readonly maxCount: number;
}

/** Beyond every revision and every count of events. */
export const maxStreamLength = maxRevision;

/** @throws TypeError as `EventStore.readStream`. */
export function checkRead(stream: string, options: ReadStreamOptions = {}): StreamRange {
  const { backwards = false, from = backwards ? maxStreamLength : 0, maxCount = maxStreamLength } = options;
  if (!Number.isInteger(from) || from < 0) throw new TypeError('a stream is read from an integer from 0');
  if (!Number.isInteger(maxCount) || maxCount < 1) throw new TypeError('maxCount is an integer from 1');
  return {
    stream,
    from: Math.min(from, maxStreamLength),
    backwards,
    maxCount: Math.min(maxCount, maxStreamLength),
  };
}

/** The part of a range that follows a page that ended at `last`; undefined when there is none. */
export function restOf(range: StreamRange, count: number, last: number): StreamRange | undefined {
  const from = range.backwards ? last - 1 : last + 1;
  const maxCount = range.maxCount - count;
  return from < 0 || maxCount <= 0 ? undefined : { ...range, from, maxCount };
}

/** @throws TypeError. */
export function checkMaxBatch(maxBatch: number): void {
  if (!(Number.isInteger(maxBatch) && maxBatch > 0)) throw new TypeError('maxBatch is a positive integer');
}
