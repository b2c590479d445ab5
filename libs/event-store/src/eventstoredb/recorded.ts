import type { EventData, Position as ClientPosition } from '@eventstore/db-client';
import {
  UnknownEventError,
  type EventMetadata,
  type EventRegistry,
  type JsonObject,
} from '@token-vault/contracts';
import type { DecodedEvents, EncodedEvent } from '../codec.ts';
import { startPosition, type Position, type RecordedEvent } from '../port.ts';
import type { Scope } from './scope.ts';
import type { ServerEvent } from './server-event.ts';

/** A place to read or subscribe from, as the client wants it. */
export type ReadFrom = 'start' | ClientPosition;

const utf8 = new TextEncoder();
const text = new TextDecoder();

/**
 * The event as it goes over the wire. Bytes, not objects: the client would turn objects into JSON a second time, and what
 * it cannot turn into JSON leaves the append unanswered. Metadata is the event's, with the schema version in front.
 */
export function proposedEvent(event: EncodedEvent): EventData {
  return {
    id: event.id,
    contentType: 'application/octet-stream',
    type: event.type,
    data: utf8.encode(event.data),
    // A Uint8Array and not a Buffer, which the client would write as an object of numbers.
    metadata: utf8.encode(`{"version":${event.version},${event.metadata.slice(1)}`),
  };
}

/** The size that the server compares with its limit (Event.SizeOnDisk of EventStoreDB). */
export function proposedBytes(event: EncodedEvent): number {
  return event.bytes + `"version":${event.version},`.length + 2 * event.type.length;
}

/** Commit and prepare position are equal for everything but explicit transactions of ancient clients. */
export function positionOf(position: ClientPosition): Position {
  return String(position.commit) as Position;
}

export function readFrom(position: Position): ReadFrom {
  if (position === startPosition) return 'start';
  const commit = BigInt(position);
  return { commit, prepare: commit };
}

/** @throws UnknownEventError for an event that this binary does not know. */
function recordedEvent(registry: EventRegistry, scope: Scope, event: ServerEvent): RecordedEvent {
  const { version: stored = 0, ...metadata } = (event.metadata ?? {}) as { readonly version?: number };
  if (!Number.isInteger(stored) || stored < 1) throw new UnknownEventError(event.type, stored);
  const { version, data } = registry.upcast(event.type, stored, dataOf(event));
  const recorded = {
    id: event.id,
    type: event.type,
    version,
    data,
    metadata: metadata as EventMetadata,
    stream: scope.streamOf(event),
    revision: Number(event.revision),
    position: event.position ? positionOf(event.position) : startPosition,
  };
  // The registry knows the type and the version, and the schema was checked when the event was appended.
  return recorded as unknown as RecordedEvent;
}

function dataOf({ data }: ServerEvent): JsonObject {
  return (data instanceof Uint8Array ? JSON.parse(text.decode(data)) : data) as JsonObject;
}

/**
 * Decodes what is the vault's, until the first event that this binary does not know, so that those before it can still be
 * delivered.
 */
export function recordedEvents(
  registry: EventRegistry,
  scope: Scope,
  events: readonly ServerEvent[],
): DecodedEvents {
  const recorded: RecordedEvent[] = [];
  for (const event of events) {
    if (!scope.includes(event)) continue;
    try {
      recorded.push(recordedEvent(registry, scope, event));
    } catch (failure) {
      return { events: recorded, failure: failure as Error };
    }
  }
  return { events: recorded };
}
