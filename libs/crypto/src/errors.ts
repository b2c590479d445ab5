/** A sealed value or wrapped key does not authenticate: it was altered, moved or cut, or it was sealed under another key. */
export class SealBrokenError extends Error {
  readonly code = 'seal_broken';
  constructor() {
    super('a sealed value did not authenticate');
  }
}

/** The data key does not exist (destroyed, expired, or of another tenant), so the values under it cannot be read. */
export class KeyDestroyedError extends Error {
  readonly code = 'key_destroyed';
  readonly keyId: string;
  constructor(keyId: string) {
    super(`data key ${keyId} is destroyed`);
    this.keyId = keyId;
  }
}

/** The tenant has no keys: it was never created here, or it was destroyed. */
export class TenantKeysMissingError extends Error {
  readonly code = 'tenant_keys_missing';
  readonly tenantId: string;
  constructor(tenantId: string) {
    super(`tenant ${tenantId} has no keys`);
    this.tenantId = tenantId;
  }
}

/** The entity of a sealed value, or its tenant, was deleted: the value cannot be opened any more, and counts as absent. */
export const isErased = (error: unknown): boolean =>
  error instanceof KeyDestroyedError || error instanceof TenantKeysMissingError;

/** The given root key is not the key that wraps this key ring. The message is one line for an operator. */
export class WrongRootKeyError extends Error {
  readonly code = 'wrong_root_key';
}

/** A root key cannot be loaded (missing, unsafe permissions, not a key). The message is one line for an operator. */
export class RootKeyUnusableError extends Error {
  readonly code = 'root_key_unusable';
}

/** The KMS that holds the root key does not answer or is sealed: a later attempt may succeed. The message is one line for an operator. */
export class RootKeyUnavailableError extends Error {
  readonly code = 'root_key_unavailable';
}

/** Another process is rotating the same keys. */
export class RotationInProgressError extends Error {
  readonly code = 'rotation_in_progress';
}
