import type { EventStore, Position, RecordedEvent } from '@token-vault/event-store';
import type { BatchWriter } from './batch-writer.ts';
import { failureCode, isPassing } from './failures.ts';

/** The first event that cannot be applied. All events before it are committed. */
export interface Culprit {
  /** The position of the last event that was applied. */
  readonly after: Position;
  /** Undefined when the log itself could not be read further. */
  readonly eventId: string | undefined;
  /** The type and the place of that event, for an operator. */
  readonly event: string | undefined;
  readonly code: string;
}

export interface Search {
  readonly store: EventStore;
  /** Stands at the last commit. */
  readonly writer: BatchWriter;
  /** The greatest number of events before the culprit. */
  readonly limit: number;
  readonly signal: AbortSignal;
}

/**
 * Repeats a failed batch event by event. Undefined when no event fails any more.
 * @throws a passing error, such as a lost connection.
 */
export async function findCulprit({ store, writer, limit, signal }: Search): Promise<Culprit | undefined> {
  let after = writer.position;
  let failing: RecordedEvent | undefined;
  let applied = 0;
  try {
    for await (const event of store.readAll(after, { signal })) {
      failing = event;
      await writer.write([event], event.position);
      await writer.settle();
      after = event.position;
      failing = undefined;
      if (++applied >= limit) return undefined;
    }
  } catch (error) {
    if (signal.aborted || isPassing(error)) throw error;
    return { after, eventId: failing?.id, event: failing && nameOf(failing), code: failureCode(error) };
  }
  return undefined;
}

const nameOf = ({ type, stream, revision, position }: RecordedEvent): string =>
  `${type} of ${stream}, revision ${revision}, at position ${position}`;
