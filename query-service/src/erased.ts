import { KeyDestroyedError, TenantKeysMissingError } from '@token-vault/crypto';

/**
 * The token or its tenant was deleted after the row was read, so its key cannot be opened: the row counts as absent.
 */
export const isErased = (error: unknown): boolean =>
  error instanceof KeyDestroyedError || error instanceof TenantKeysMissingError;
