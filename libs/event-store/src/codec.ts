import {
  InvalidEventError,
  type EventMetadata,
  type EventRegistry,
  type JsonObject,
  type NewEvent,
} from '@token-vault/contracts';
import type { Recorded, RecordedEvent, StoredEvent } from './port.ts';

/** An event ready to be stored: validated, and serialised once. */
export interface EncodedEvent {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  /** JSON text. */
  readonly data: string;
  /** JSON text. */
  readonly metadata: string;
  /** UTF-8 size of `data` and `metadata`. */
  readonly bytes: number;
}

export const isUuid = (text: string): boolean => uuid.test(text);
const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

/** @throws InvalidEventError, UnknownEventError. */
export function encodeEvent(registry: EventRegistry, event: NewEvent<string, unknown>): EncodedEvent {
  registry.validate(event);
  if (!isUuid(event.id)) throw new InvalidEventError(event.type, ['id']);
  const data = JSON.stringify(event.data);
  const metadata = JSON.stringify(event.metadata);
  return {
    id: event.id.toLowerCase(),
    type: event.type,
    version: event.version,
    data,
    metadata,
    bytes: Buffer.byteLength(data) + Buffer.byteLength(metadata),
  };
}

/** Parses a stored event and converts it to the current version. @throws UnknownEventError. */
export function decodeEvent(registry: EventRegistry, stored: StoredEvent): RecordedEvent {
  const { version, data } = registry.upcast(
    stored.type,
    stored.version,
    JSON.parse(stored.data) as JsonObject,
  );
  return asRecorded({
    id: stored.id,
    type: stored.type,
    version,
    data,
    metadata: JSON.parse(stored.metadata) as EventMetadata,
    stream: stored.stream,
    revision: stored.revision,
    position: stored.position,
  });
}

/** An event whose type and version the registry knows. Its schema was checked when it was appended. */
// eslint-disable-next-line no-restricted-syntax -- The registry has checked type and data at runtime; the compiler knows only text.
export const asRecorded = (event: Recorded<NewEvent>): RecordedEvent => event as unknown as RecordedEvent;

/** The events of a stretch of the log up to the first one that could not be read. */
export interface DecodedEvents {
  readonly events: readonly RecordedEvent[];
  /** The error of the first event that could not be read; `events` ends before that event. */
  readonly failure?: Error;
}

/** Decodes until the first event that this release does not know, so that the events before it can still be delivered. */
export function decodeEvents(registry: EventRegistry, stored: readonly StoredEvent[]): DecodedEvents {
  const events: RecordedEvent[] = [];
  for (const event of stored) {
    try {
      events.push(decodeEvent(registry, event));
    } catch (failure) {
      return { events, failure: failure as Error };
    }
  }
  return { events };
}
