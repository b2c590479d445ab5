import type { EventData, Position as ClientPosition } from '@eventstore/db-client';
import {
  UnknownEventError,
  type EventMetadata,
  type EventRegistry,
  type JsonObject,
} from '@token-vault/contracts';
import type { DecodedEvents, EncodedEvent } from '../codec.ts';
import { startPosition, type Position, type RecordedEvent, type StoredEvent } from '../port.ts';
import type { Scope } from './scope.ts';
import type { RawEvent, ServerEvent } from './server-event.ts';

/** A position to read or subscribe from, in the form of the client. */
export type ReadFrom = 'start' | ClientPosition;

const utf8 = new TextEncoder();
const text = new TextDecoder();
/** Keeps every byte, also a byte order mark. */
const exactText = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * The event in the form of the protocol. Data is bytes, not objects: the client would serialise objects a second time, and a value that is
 * not JSON would leave the append without an answer. The metadata is that of the event, preceded by the schema version.
 */
export function proposedEvent(event: EncodedEvent) {
  return {
    id: event.id,
    contentType: 'application/octet-stream',
    type: event.type,
    data: utf8.encode(event.data),
    // A Uint8Array and not a Buffer, which the client would write as an object of numbers.
    metadata: utf8.encode(`{"version":${event.version},${event.metadata.slice(1)}`),
  } as const satisfies EventData;
}

/** Exactly the form that `proposedEvent` writes: an altered event must not give the texts of the original one. */
const writtenVersion = /^\{"version":([1-9]\d{0,8}),/;

/** The texts of an event as they were written. Version 0 means that this adapter did not write the event. */
export function storedEvent(scope: Scope, event: RawEvent): StoredEvent {
  const written = exactText.decode(event.metadata);
  const [prefix = '', version = 0] = writtenVersion.exec(written) ?? [];
  return {
    position: positionOf(event.position),
    stream: scope.streamOf(event),
    revision: event.revision,
    version: Number(version),
    id: event.id,
    type: event.type,
    data: exactText.decode(event.data),
    metadata: prefix === '' ? written : `{${written.slice(prefix.length)}`,
  };
}

/** The size that the server compares with its limit (Event.SizeOnDisk of EventStoreDB). */
export function proposedBytes(event: EncodedEvent): number {
  return event.bytes + `"version":${event.version},`.length + 2 * event.type.length;
}

/** Commit and prepare position are equal except in explicit transactions of very old clients. */
export function positionOf(position: ClientPosition): Position {
  return String(position.commit) as Position;
}

export function readFrom(position: Position): ReadFrom {
  if (position === startPosition) return 'start';
  const commit = BigInt(position);
  return { commit, prepare: commit };
}

/** @throws UnknownEventError for an event that this release does not know. */
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
 * Decodes the events of the vault until the first one that this release does not know, so that the events before it can still be delivered.
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
