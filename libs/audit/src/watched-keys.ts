import { streams, TenantDeleted } from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';

type Hashes = Pick<KeyRing, 'hashes'>;

/** The keys for one verification. */
export interface WatchedKeys extends Hashes {
  /** Tenants that had no keys when these were asked for, be it for a moment. */
  readonly missing: ReadonlySet<string>;
}

/** For both parts of a verification, so that it knows what neither could check. */
export function watchKeys(keyRing: Hashes): WatchedKeys {
  const missing = new Set<string>();
  return {
    missing,
    async hashes(tenantId) {
      try {
        return await keyRing.hashes(tenantId);
      } catch (error) {
        if (error instanceof TenantKeysMissingError) missing.add(tenantId);
        throw error;
      }
    },
  };
}

/** The vault stores the deletion of a tenant before it destroys the keys. */
export async function isDeleted(
  store: Pick<EventStore, 'readStoredStream'>,
  tenantId: string,
): Promise<boolean> {
  for await (const { type } of store.readStoredStream(streams.tenant(tenantId), { backwards: true }))
    if (type === TenantDeleted.type) return true;
  return false;
}
