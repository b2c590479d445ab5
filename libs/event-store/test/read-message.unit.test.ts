import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeReadMessage } from '../src/eventstoredb/read-message.ts';

const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String);
const words = fc.string({ unit: 'binary', maxLength: 200 });

const recorded = fc.record({
  id: fc.uuid(),
  streamId: words,
  type: words,
  revision: fc.nat(),
  position: uint64,
  data: fc.uint8Array({ maxLength: 300 }),
  metadata: fc.uint8Array({ maxLength: 300 }),
});
type Recorded = typeof recorded extends fc.Arbitrary<infer Value> ? Value : never;

/** The message in bytes, by the generated classes of the client. */
function encoded(fill: (response: streams.ReadResp) => void): Buffer {
  const response = new streams.ReadResp();
  fill(response);
  return Buffer.from(response.serializeBinary());
}

function eventOf(given: Recorded): streams.ReadResp.ReadEvent {
  const event = new streams.ReadResp.ReadEvent.RecordedEvent();
  const id = new shared.UUID();
  id.setString(given.id);
  const stream = new shared.StreamIdentifier();
  stream.setStreamName(new TextEncoder().encode(given.streamId));
  event.setId(id);
  event.setStreamIdentifier(stream);
  event.setStreamRevision(String(given.revision));
  event.setPreparePosition(given.position);
  event.setCommitPosition(given.position);
  event.getMetadataMap().set('created', '17').set('type', given.type).set('content-type', 'text');
  event.setData(given.data);
  event.setCustomMetadata(given.metadata);
  const read = new streams.ReadResp.ReadEvent();
  read.setEvent(event);
  read.setCommitPosition(given.position);
  return read;
}

describe('a message of a read', () => {
  it('is decoded to the event that the generated classes wrote', () => {
    fc.assert(
      fc.property(recorded, (given) => {
        const { event } = decodeReadMessage(encoded((response) => response.setEvent(eventOf(given)))) as {
          event: Recorded;
        };
        expect({ ...event, data: [...event.data], metadata: [...event.metadata] }).toEqual({
          ...given,
          data: [...given.data],
          metadata: [...given.metadata],
        });
      }),
    );
  });

  it('is a checkpoint, at any position', () => {
    fc.assert(
      fc.property(uint64, (position) => {
        const checkpoint = new streams.ReadResp.Checkpoint();
        checkpoint.setCommitPosition(position);
        checkpoint.setPreparePosition(position);
        const bytes = encoded((response) => response.setCheckpoint(checkpoint));
        expect(decodeReadMessage(bytes)).toEqual({ checkpoint: position });
      }),
    );
  });

  it('says that the stream is missing, or that the subscription has caught up, and otherwise nothing', () => {
    const missing = new streams.ReadResp.StreamNotFound();
    const confirmation = new streams.ReadResp.SubscriptionConfirmation();
    confirmation.setSubscriptionId('an id');
    const messages = [
      encoded((response) => response.setStreamNotFound(missing)),
      encoded((response) => response.setCaughtUp(new streams.ReadResp.CaughtUp())),
      encoded((response) => response.setConfirmation(confirmation)),
      encoded((response) => response.setFirstStreamPosition('7')),
      // A link whose event is gone.
      encoded((response) => response.setEvent(new streams.ReadResp.ReadEvent())),
    ].map(decodeReadMessage);
    expect(messages).toEqual([{ isStreamMissing: true }, { isCaughtUp: true }, {}, {}, {}]);
  });

  it('passes over fields of newer servers, of every kind', () => {
    const fields = ['a80600', 'a9060000000000000000', 'aa0603010203', 'ad0600000000'].join('');
    const newer = Buffer.from(fields, 'hex');
    const caughtUp = encoded((response) => response.setCaughtUp(new streams.ReadResp.CaughtUp()));
    expect(decodeReadMessage(Buffer.concat([newer, caughtUp, newer]))).toEqual({ isCaughtUp: true });
  });

  it('is refused when it is cut off, wherever that is', () => {
    fc.assert(
      fc.property(recorded, fc.nat(), (given, place) => {
        const whole = encoded((response) => response.setEvent(eventOf(given)));
        const cut = whole.subarray(0, 1 + (place % (whole.length - 1)));
        expect(() => decodeReadMessage(cut)).toThrow(RangeError);
      }),
    );
  });
});
