import * as feross from 'buffer/index.js';

interface BufferLike extends Uint8Array {
  toString(encoding?: string, start?: number, end?: number): string;
}
interface BufferClass {
  from(value: unknown, encodingOrOffset?: unknown, length?: number): BufferLike;
  isEncoding(encoding: string): boolean;
  byteLength(value: unknown, encoding?: string): number;
  prototype: BufferLike;
}

// The package declares the functions of Buffer by overloads, which cannot be replaced below.
const Buffer: BufferClass = feross.Buffer;
// The package does not declare these.
const { SlowBuffer, INSPECT_MAX_BYTES, kMaxLength }: Readonly<Record<string, unknown>> = feross;

// The package predates base64url; its base64 decoder reads that alphabet, so only names and output are added.
const isUrlSafe = (encoding: unknown): boolean =>
  typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
/* eslint-disable @typescript-eslint/unbound-method -- applied to their own class or to a Buffer below */
const { from, isEncoding, byteLength } = Buffer;
const { toString } = Buffer.prototype;
/* eslint-enable @typescript-eslint/unbound-method */

Buffer.from = (value, encoding, length) =>
  from.call(Buffer, value, isUrlSafe(encoding) ? 'base64' : encoding, length);
Buffer.isEncoding = (encoding) => isUrlSafe(encoding) || isEncoding(encoding);
Buffer.byteLength = (value, encoding) => byteLength(value, isUrlSafe(encoding) ? 'base64' : encoding);
Buffer.prototype.toString = function (encoding, start, end) {
  if (!isUrlSafe(encoding)) return toString.call(this, encoding, start, end);
  return toString
    .call(this, 'base64', start, end)
    .replace(/[+/=]/g, (mark) => (mark === '+' ? '-' : mark === '/' ? '_' : ''));
};

export { Buffer, SlowBuffer, INSPECT_MAX_BYTES, kMaxLength };
export const constants = { MAX_LENGTH: kMaxLength };
export const { atob, btoa } = globalThis;
