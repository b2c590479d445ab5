import type { SandboxLimits } from './limits.ts';
import { decodeFromChild, ProtocolError } from './messages.ts';
import type { Envelope, FromChild } from './messages.ts';

/** Room for a 64 KB head of a request, or 64 KB of console output, escaped as JSON. */
const maxEnvelopeBytes = 524_288;
/** The other fields of an envelope, besides the head of a request. */
const framingBytes = 256;
const noBody = Buffer.alloc(0);

/**
 * Encodes a message of a child as a small envelope (one line of JSON) and a body that is not parsed on the way.
 * Content of guest code is in the body, so that the service parses only JSON of bounded size.
 */
export function encodeFrame(message: FromChild): readonly Buffer[] {
  if (message.type === 'call') {
    const { body, ...rest } = message;
    const envelope = { ...rest, hasBody: body !== undefined, bytes: body?.length ?? 0 };
    return [lineOf(envelope), ...(body === undefined ? [] : [body])];
  }
  if (message.type === 'outcome' && 'text' in message.outcome) {
    const { text, ...outcome } = message.outcome;
    const body = Buffer.from(text, 'utf8');
    return [lineOf({ ...message, outcome, bytes: body.length }), body];
  }
  return [lineOf(message)];
}

const lineOf = (envelope: object): Buffer => Buffer.from(`${JSON.stringify(envelope)}\n`, 'utf8');

/**
 * The most bytes of envelopes that a child may send in a run with that many messages: the heads of its requests, and
 * one outcome with its console.
 */
export const envelopeBudget = (limits: SandboxLimits, messages: number): number =>
  limits.requestHeadsBytes + maxEnvelopeBytes + messages * framingBytes;

/**
 * Cuts a byte stream into frames. A frame that is too large is refused by its announced size, before it is collected.
 * @param charge called with the bytes of each envelope before it is parsed; may throw
 */
export function createFrameReader(
  limits: SandboxLimits,
  onMessage: (message: FromChild) => void,
  charge: (bytes: number) => void = () => {},
): (chunk: Buffer) => void {
  let parts: Buffer[] = [];
  let held = 0;
  let awaiting: Envelope | undefined;
  const collected = (tail: Buffer): Buffer => {
    const whole = parts.length === 0 ? tail : Buffer.concat([...parts, tail]);
    parts = [];
    held = 0;
    return whole;
  };
  const refuseLong = (bytes: number): void => {
    if (bytes > maxEnvelopeBytes) throw new ProtocolError('envelope too long');
  };

  /** The number of bytes of the frame. Undefined when more bytes must arrive. */
  const readOne = (rest: Buffer): number | undefined => {
    if (awaiting !== undefined) {
      const missing = awaiting.bytes - held;
      if (rest.length < missing) return undefined;
      const { complete } = awaiting;
      awaiting = undefined;
      onMessage(complete(collected(rest.subarray(0, missing))));
      return missing;
    }
    const end = rest.indexOf(10);
    refuseLong(held + (end < 0 ? rest.length : end));
    if (end < 0) return undefined;
    charge(held + end);
    const envelope = decodeFromChild(collected(rest.subarray(0, end)).toString('utf8'), limits);
    if (envelope.bytes > 0) awaiting = envelope;
    else onMessage(envelope.complete(noBody));
    return end + 1;
  };

  return (chunk) => {
    let rest = chunk;
    for (let taken = readOne(rest); taken !== undefined; taken = readOne(rest)) rest = rest.subarray(taken);
    if (rest.length === 0) return;
    held += rest.length;
    parts.push(rest);
  };
}
