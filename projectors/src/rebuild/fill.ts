import {
  comparePositions,
  EventMissingError,
  startPosition,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import type { Projection } from '../projection.ts';
import { BatchWriter } from '../runner/batch-writer.ts';
import { findCulprit } from '../runner/culprit.ts';
import { isFenced, isPassing } from '../runner/failures.ts';
import { pause } from '../runner/leadership.ts';
import { charactersOf } from '../runner/statements.ts';
import type { Session } from '../runner/session.ts';
import { failSuccessor, readSuccessor, type Purpose } from './successor.ts';

export interface FillOptions {
  readonly session: Session;
  readonly store: EventStore;
  readonly projection: Projection;
  readonly purpose: Purpose;
  readonly generation: number;
  readonly maxBatch: number;
  readonly signal: AbortSignal;
  /** `events`: the number of events applied since the last call. */
  readonly onProgress: (position: Position, until: Position, events: number) => void;
}

export type FillOutcome = 'filled' | 'cancelled' | 'aborted';

/** Of the events of a batch: as in a page of the log. */
const mostCharacters = 4 * 1024 * 1024;

/**
 * Applies the log from the successor's position to `until` (inclusive). Waits while the rebuild is paused.
 * @throws EventMissingError when the log does not reach `until`, or has a gap before it.
 */
export async function fill(options: FillOptions, until: Position): Promise<FillOutcome> {
  const { session, projection, purpose, generation, signal } = options;
  while (!signal.aborted) {
    const successor = await readSuccessor(session, projection, purpose);
    if (!successor || successor.generation !== generation) return 'cancelled';
    if (comparePositions(successor.position, until) >= 0) return 'filled';
    if (successor.status !== 'live') {
      await pause(500, signal);
      continue;
    }
    const writer = createWriter(options, successor.position);
    try {
      await writeUntil(options, writer, until);
    } catch (error) {
      if (isFenced(error)) continue;
      if (signal.aborted || isPassing(error) || error instanceof EventMissingError) throw error;
      await stop(options);
    }
  }
  return 'aborted';
}

const createWriter = (
  { session, projection, generation, purpose }: FillOptions,
  position: Position,
): BatchWriter => new BatchWriter(session, { projection, generation, kind: purpose }, position);

async function writeUntil(options: FillOptions, writer: BatchWriter, until: Position): Promise<void> {
  const { store, maxBatch, signal, onProgress } = options;
  let events: RecordedEvent[] = [];
  let characters = 0;
  for await (const event of store.readAll(writer.position, { until, signal })) {
    events.push(event);
    characters += charactersOf(event.data);
    if (events.length < maxBatch && characters < mostCharacters) continue;
    await writer.write(events, event.position);
    onProgress(event.position, until, events.length);
    events = [];
    characters = 0;
  }
  if (!signal.aborted) {
    await writer.write(events, until);
    onProgress(until, until, events.length);
  }
  await writer.settle();
}

/** Stores the id of the event that cannot be applied in the status and ends the rebuild. */
async function stop(options: FillOptions): Promise<void> {
  const { session, store, projection, purpose, maxBatch, signal } = options;
  const { name } = projection;
  const position = (await readSuccessor(session, projection, purpose))?.position ?? startPosition;
  const writer = createWriter(options, position);
  const culprit = await findCulprit({ store, writer, limit: 2 * maxBatch, signal });
  if (!culprit) return;
  await failSuccessor(session, name, culprit);
}
