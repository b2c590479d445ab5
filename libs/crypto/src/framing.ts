/**
 * Joins texts so that different lists always give different bytes: the number of parts comes first, then each part with its byte length (32
 * bits, big-endian). Used for additional authenticated data, HMAC input and HKDF info.
 *
 * @throws TypeError on a lone surrogate: UTF-8 would turn different texts into the same bytes.
 */
export function frame(parts: readonly string[]): Buffer {
  let size = 4;
  for (const part of parts) {
    if (!part.isWellFormed()) throw new TypeError('text with a lone surrogate has no unambiguous bytes');
    size += 4 + Buffer.byteLength(part);
  }
  const framed = Buffer.allocUnsafe(size);
  let offset = framed.writeUInt32BE(parts.length, 0);
  for (const part of parts) {
    const written = framed.write(part, offset + 4);
    framed.writeUInt32BE(written, offset);
    offset += 4 + written;
  }
  return framed;
}
