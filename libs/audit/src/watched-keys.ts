import { streams, TenantCreated, TenantDeleted, tenantEvents } from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';

/** The keys for one verification. */
export interface WatchedKeys extends Pick<KeyRing, 'hashes' | 'isDestroyed'> {
  /** Tenants that had no keys when these were asked for, be it for a moment. */
  readonly missing: ReadonlySet<string>;
}

/** For both parts of a verification, so that it knows what neither could check. */
export function watchKeys(keyRing: Pick<KeyRing, 'hashes' | 'isDestroyed'>): WatchedKeys {
  const missing = new Set<string>();
  return {
    missing,
    isDestroyed: (tenantId) => keyRing.isDestroyed(tenantId),
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

const changes = new Set<string>(tenantEvents.map(({ type }) => type));

/**
 * Why a tenant without keys is none that the vault has deleted. The vault stores the deletion, which no change of the tenant follows, before it
 * destroys the keys, and the key ring keeps that it did. Anybody can write all of this, but the vault itself acts on it, and it stays.
 */
export async function whyNotDeleted(
  store: Pick<EventStore, 'readStoredStream'>,
  keyRing: Partial<WatchedKeys>,
  tenantId: string,
): Promise<string | undefined> {
  let first: string | undefined;
  let last: string | undefined;
  for await (const { type } of store.readStoredStream(streams.tenant(tenantId))) {
    if (!changes.has(type)) continue;
    first ??= type;
    last = type;
  }
  if (first !== TenantCreated.type) return 'its creation is not in the log';
  if (last !== TenantDeleted.type) return 'its deletion is not the end of its stream';
  return (await keyRing.isDestroyed?.(tenantId)) === false ? 'the vault did not destroy them' : undefined;
}
