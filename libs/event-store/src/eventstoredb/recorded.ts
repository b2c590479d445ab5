import type { EventData } from '@eventstore/db-client';
import {
  UnknownEventError,
  type EventMetadata,
  type EventRegistry,
  type JsonObject,
} from '@token-vault/contracts';
import { asRecorded, type DecodedEvents, type EncodedEvent } from '../codec.ts';
import type { RecordedEvent, StoredEvent } from '../port.ts';
import type { Scope } from './scope.ts';
import { objectIn, type ServerEvent } from './server-event.ts';

const utf8 = new TextEncoder();
const text = new TextDecoder();
/** Keeps every byte, also a byte order mark. */
const exactText = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * The event in the form of the protocol. Data is passed as bytes: the client would serialise objects a second time, and a value that is not
 * JSON would leave the append without an answer. The metadata consists of the schema version, followed by the metadata of the event.
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

/** Exactly the form that `proposedEvent` writes. With a looser form an altered event could give the texts of the original event. */
const writtenVersion = /^\{"version":([1-9]\d{0,8}),/;

/** The texts of an event as they were written. Version 0 means that this adapter did not write the event. */
export function storedEvent(scope: Scope, event: ServerEvent): StoredEvent {
  const written = exactText.decode(event.metadata);
  const [prefix = '', version = 0] = writtenVersion.exec(written) ?? [];
  return {
    position: event.position,
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

/** @throws UnknownEventError for an event that this release does not know. */
function recordedEvent(registry: EventRegistry, scope: Scope, event: ServerEvent): RecordedEvent {
  const { version: stored, ...metadata } = objectIn(event.metadata);
  if (typeof stored !== 'number' || !Number.isInteger(stored) || stored < 1)
    throw new UnknownEventError(event.type, Number(stored ?? 0));
  const written = JSON.parse(text.decode(event.data)) as JsonObject;
  const { version, data } = registry.upcast(event.type, stored, written);
  return asRecorded({
    id: event.id,
    type: event.type,
    version,
    data,
    metadata: metadata as EventMetadata,
    stream: scope.streamOf(event),
    revision: event.revision,
    position: event.position,
  });
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
