import { createSecretKey, type KeyObject } from 'node:crypto';
import { deriveKey } from '../aead.ts';

/** One version of a tenant's key: the two keys that are derived from it. */
export interface TenantKey {
  readonly tenantId: string;
  readonly version: number;
  readonly dataKeyWrapping: KeyObject;
  readonly indexKeyWrapping: Buffer;
}

/** A new tenant key with its derived keys. */
export function deriveTenantKey(tenantId: string, version: number, bytes: Buffer): TenantKey {
  const wrapping = deriveKey(bytes, 'tenant', 'wrap-data-key');
  const dataKeyWrapping = createSecretKey(wrapping);
  // The KeyObject has a copy.
  wrapping.fill(0);
  return {
    tenantId,
    version,
    dataKeyWrapping,
    indexKeyWrapping: deriveKey(bytes, 'tenant', 'wrap-index-key'),
  };
}
