import { decrypt, deriveKey, encrypt, keyLength } from './aead.ts';
import { randomOf } from './random.ts';

/** A random part of the key of a text; all parts are needed to build the key. */
export const newShare = (): string => randomOf(keyLength).toString('base64');

function keyOf(shares: readonly string[]): Buffer {
  const all = Buffer.concat(shares.map((share) => Buffer.from(share, 'base64')));
  const key = deriveKey(all, 'shared seal');
  all.fill(0);
  return key;
}

/** Encrypts a text so that it opens only with all `shares`, in their order. @returns base64 */
export function sealWithShares(shares: readonly string[], context: string, text: string): string {
  const key = keyOf(shares);
  try {
    return encrypt(key, text, Buffer.from(context)).toString('base64');
  } finally {
    key.fill(0);
  }
}

/** @throws SealBrokenError unless `sealed` is a result of `sealWithShares` for these shares and this context */
export function openWithShares(shares: readonly string[], context: string, sealed: string): string {
  const key = keyOf(shares);
  try {
    return decrypt(key, Buffer.from(sealed, 'base64'), Buffer.from(context)).toString('utf8');
  } finally {
    key.fill(0);
  }
}
