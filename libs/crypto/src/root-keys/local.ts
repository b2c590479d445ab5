import { deriveKey, keyLength } from '../aead.ts';
import { RootKeyUnusableError } from '../errors.ts';
import { unwrapKey, wrapKey } from '../wrapping.ts';
import type { RootKeyProvider } from './port.ts';

/**
 * A root key of this process. Its id derives from the key itself (one way), so the same key has the same id whether it
 * comes from a file or the environment, and another key is told apart by name.
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
 * @param source named in the error, e.g. `VAULT_ROOT_KEY`
 * @throws RootKeyUnusableError for anything else, or for bytes that are visibly not random.
 */
export function parseRootKey(text: string, source: string): Buffer {
  const trimmed = text.trim();
  const key = decode(trimmed);
  if (key?.length !== keyLength) {
    throw new RootKeyUnusableError(
      `${source} is not a root key: expected 32 random bytes as base64 or hex (make one with: openssl rand -base64 32)`,
    );
  }
  // 32 random bytes with fewer than 16 different values do not happen (below 1 in 10^9).
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
