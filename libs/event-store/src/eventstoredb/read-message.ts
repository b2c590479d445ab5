import { startPosition, type Position } from '../port.ts';
import { ProtobufReader } from './protobuf-reader.ts';
import type { ServerEvent } from './server-event.ts';

/** A message of a read or of a subscription. Empty when this adapter does not need the message. */
export type ReadMessage =
  | { readonly event: ServerEvent }
  | { readonly checkpoint: Position }
  | { readonly isCaughtUp: true }
  | { readonly isStreamMissing: true }
  | Record<string, never>;

// The fields of ReadResp in streams.proto.
const fields = { event: 1, checkpoint: 3, streamNotFound: 4, caughtUp: 8 } as const;

/** @throws RangeError for bytes that are not a message. */
export function decodeReadMessage(bytes: Buffer): ReadMessage {
  const reader = new ProtobufReader(bytes);
  let message: ReadMessage = {};
  reader.eachField((field) => {
    if (field === fields.event) message = readEvent(reader);
    else {
      if (field === fields.streamNotFound) message = { isStreamMissing: true };
      else if (field === fields.caughtUp) message = { isCaughtUp: true };
      if (field === fields.checkpoint) message = { checkpoint: commitPosition(reader) };
      else reader.skip();
    }
  });
  return message;
}

function commitPosition(reader: ProtobufReader): Position {
  let position: string = startPosition;
  reader.message((field) => {
    if (field === 1) position = reader.uint64();
    else reader.skip();
  });
  return position as Position;
}

/** ReadEvent: only its event, and not the link through which it was found. */
function readEvent(reader: ProtobufReader): ReadMessage {
  let message: ReadMessage = {};
  reader.message((field) => {
    if (field === 1) message = { event: recordedEvent(reader) };
    else reader.skip();
  });
  return message;
}

const noBytes = new Uint8Array();

/** RecordedEvent. Prepare and commit position are equal. */
function recordedEvent(reader: ProtobufReader): ServerEvent {
  let [id, streamId, type, revision, position] = ['', '', '', '0', '0'];
  let [data, metadata] = [noBytes, noBytes] as [Uint8Array, Uint8Array];
  reader.message((field) => {
    switch (field) {
      case 1:
        id = textIn(reader, 2) || id;
        break;
      case 2:
        streamId = textIn(reader, 3);
        break;
      case 3:
        revision = reader.uint64();
        break;
      case 5:
        position = reader.uint64();
        break;
      case 6:
        type = typeIn(reader) ?? type;
        break;
      case 7:
        metadata = reader.bytes();
        break;
      case 8:
        data = reader.bytes();
        break;
      default:
        reader.skip();
    }
  });
  return { id, streamId, type, revision: Number(revision), position: position as Position, data, metadata };
}

/** The text in one field of a message. */
function textIn(reader: ProtobufReader, wanted: number): string {
  let text = '';
  reader.message((field) => {
    if (field === wanted) text = reader.text();
    else reader.skip();
  });
  return text;
}

/** The value of one entry of the properties of an event, when its key is `type`. */
function typeIn(reader: ProtobufReader): string | undefined {
  let [key, value] = ['', ''];
  reader.message((field) => {
    if (field === 1) key = reader.text();
    else if (field === 2) value = reader.text();
    else reader.skip();
  });
  return key === 'type' ? value : undefined;
}
