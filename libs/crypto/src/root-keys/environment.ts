import { localRootKey, parseRootKey } from './local.ts';
import type { RootKeyProvider } from './port.ts';

/**
 * A root key given by value, e.g. from an environment variable.
 * @param value 32 bytes, base64 or hex
 * @param source the name of the value in error messages
 * @throws RootKeyUnusableError
 */
export function environmentRootKey(value: string, source = 'VAULT_ROOT_KEY'): RootKeyProvider {
  return localRootKey(parseRootKey(value, source));
}
