import type { SandboxLimits } from './limits.ts';
import { decodeFromChild, ProtocolError } from './messages.ts';
import type { Envelope, FromChild } from './messages.ts';

/** A head of 64 KB of a request, or 64 KB of console, escaped as JSON. */
const maxEnvelopeBytes = 524_288;
const noBody = Buffer.alloc(0);

/**
 * What a child says as the bytes of a small envelope, one line of JSON, and of a body that nobody parses on the way: what guest code
 * made goes apart, so that the service reads no more JSON than it has bounded.
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

/** Cuts a byte stream into frames. What is too large is refused by what it announces, before it is collected. */
export function createFrameReader(
  limits: SandboxLimits,
  onMessage: (message: FromChild) => void,
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

  /** The number of bytes that it took; undefined when there must be more of them. */
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
