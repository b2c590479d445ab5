import { createHash, randomUUID } from 'node:crypto';

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** A random UUID (version 4). Entity ids contain no time and cannot be guessed. */
export const newId = (): string => randomUUID();

export const isUuid = (text: string): boolean => uuidPattern.test(text);

const hex = (bytes: Buffer): string => {
  const text = bytes.toString('hex');
  return [
    text.slice(0, 8),
    text.slice(8, 12),
    text.slice(12, 16),
    text.slice(16, 20),
    text.slice(20, 32),
  ].join('-');
};

/**
 * A UUID (version 5, RFC 9562) derived from names: the same names give the same id. A repeated command gets the same event ids, so the
 * store recognises the repeat.
 */
export function idFrom(...names: readonly string[]): string {
  const hash = createHash('sha1').update('token-vault');
  for (const name of names) hash.update(`\0${name.length}\0${name}`);
  const bytes = hash.digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return hex(bytes);
}
