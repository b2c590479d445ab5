import type { KeyObject } from 'node:crypto';
import { decrypt, encrypt, ivLength, keyLength, tagLength } from './aead.ts';
import { SealBrokenError } from './errors.ts';

const formatVersion = 1;

/** Bytes of a wrapped 32-byte key: format version, iv, ciphertext, tag. */
export const wrappedKeyLength = 1 + ivLength + keyLength + tagLength;

/** Encrypts a key under another key. `aad` binds the purpose of the key; see `frame`. */
export function wrapKey(
  wrappingKey: Buffer | KeyObject,
  key: Buffer,
  aad: Buffer,
  format = formatVersion,
): Buffer {
  return Buffer.concat([Buffer.of(format), encrypt(wrappingKey, key, aad)]);
}

/** @throws SealBrokenError unless `wrapped` was made by `wrapKey` with this wrapping key, `aad` and format. */
export function unwrapKey(
  wrappingKey: Buffer | KeyObject,
  wrapped: Buffer,
  aad: Buffer,
  format = formatVersion,
): Buffer {
  if (wrapped[0] !== format) throw new SealBrokenError();
  return decrypt(wrappingKey, wrapped.subarray(1), aad);
}
