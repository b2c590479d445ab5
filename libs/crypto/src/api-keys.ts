import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { base58Alphabet } from './base58.ts';

/** The key types: public, private and management applications, sessions, and proxies. */
export const apiKeyTypes = ['pub', 'pvt', 'mgt', 'ses', 'prx'] as const;
export type ApiKeyType = (typeof apiKeyTypes)[number];

/** 24 base-58 characters carry 140 bits (rules.md §6 asks for 22 or more and 128 bits). */
const randomLength = 24;

/** `key_<type>_<24 random base-58 characters>`. */
export function generateApiKey(type: ApiKeyType): string {
  return `key_${type}_${randomBase58(randomLength)}`;
}

function randomBase58(length: number): string {
  // 232 is the largest multiple of 58 in a byte. Larger values are dropped, so every character is equally likely.
  const limit = 232;
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < limit && text.length < length) text += base58Alphabet.charAt(byte % 58);
    }
  }
  return text;
}

/** The stored form of a key: SHA-256, hex. A plain hash is enough because a key has 140 random bits. */
export function hashApiKey(key: string): string {
  return hash('sha256', key, 'hex');
}

/** Compares two hex hashes in constant time. Returns false unless both are 64 hex digits. */
export function equalHashes(left: string, right: string): boolean {
  const isHash = /^[\da-f]{64}$/;
  if (!isHash.test(left) || !isHash.test(right)) return false;
  return timingSafeEqual(Buffer.from(left, 'hex'), Buffer.from(right, 'hex'));
}
