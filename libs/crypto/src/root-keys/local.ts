import { deriveKey, keyLength } from '../aead.ts';
import { RootKeyUnusableError } from '../errors.ts';
import { unwrapKey, wrapKey } from '../wrapping.ts';
import type { RootKeyProvider } from './port.ts';

/**
 * A root key in the memory of this process. Its id is derived from the key (one way). So the same key has the same id, whether it comes
 * from a file or the environment, and another key has another id.
 */
export function localRootKey(key: Buffer): RootKeyProvider {
  const wrappingKey = deriveKey(key, 'root', 'wrap');
  const id = `local:${deriveKey(key, 'root', 'id').toString('hex', 0, 8)}`;
  return {
    id,
    wrap: async (plaintext, aad) => wrapKey(wrappingKey, plaintext, aad),
    unwrap: async (wrapped, aad) => unwrapKey(wrappingKey, wrapped, aad),
  };
}

/**
 * Reads 32 bytes from hex or base64 (either alphabet, padded or not). Surrounding white space is ignored.
 * @param source the name of the value in the error, e.g. `VAULT_ROOT_KEY`
 * @throws RootKeyUnusableError for any other text, or for bytes that are visibly not random.
 */
export function parseRootKey(text: string, source: string): Buffer {
  const trimmed = text.trim();
  const key = decode(trimmed);
  if (key?.length !== keyLength) {
    throw new RootKeyUnusableError(
      `${source} is not a root key: expected 32 random bytes as base64 or hex (make one with: openssl rand -base64 32)`,
    );
  }
  // 32 random bytes have fewer than 16 different values with a probability below 1 in 10^9.
  if (new Set(key).size < 16) {
    throw new RootKeyUnusableError(`${source} is not random (make a key with: openssl rand -base64 32)`);
  }
  return key;
}

function decode(text: string): Buffer | undefined {
  if (/^[\da-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  if (/^[\w+/-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
  return undefined;
}
