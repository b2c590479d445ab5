import { KeyDestroyedError, TenantKeysMissingError } from '@token-vault/crypto';

/** What was found a moment ago cannot be opened any more, because it or its tenant was deleted: it is not there. */
export const isErased = (error: unknown): boolean =>
  error instanceof KeyDestroyedError || error instanceof TenantKeysMissingError;
