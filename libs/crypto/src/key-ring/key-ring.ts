import type { Pool } from 'pg';
import { keyLength } from '../aead.ts';
import { DataKey } from '../data-key.ts';
import { randomOf } from '../random.ts';
import type { RootKeyProvider } from '../root-keys/port.ts';
import type { AlterationObserver, TenantHashes } from '../tenant-hashes.ts';
import type { Clock } from './clock.ts';
import { createDataKeyInserts, wrapDataKey, type KeyDurability } from './data-key-inserts.ts';
import { createDataKeyLookups } from './data-key-lookups.ts';
import { createKeyDestruction, type KeyDestruction } from './destruction.ts';
import { newKeyId, requireText, requireUuid } from './identifiers.ts';
import { createUnsignedRecords, type UnsignedRecords } from './index-key.ts';
import { RootKeySet, type FindRootKey } from './root-key-set.ts';
import { rotateRoot } from './root-rotation.ts';
import { createSealing, type DataKeyRequest, type NewDataKey, type Sealing } from './sealing.ts';
import { createTenantKeys, TenantKeys } from './tenant-keys.ts';
import { rotateTenant } from './tenant-rotation.ts';

export interface KeyRingOptions {
  /** A pool of the primary. The key ring never ends it. */
  readonly pool: Pool;
  readonly rootKey: RootKeyProvider;
  /** The old or the new root key, while the root key is being rotated. */
  readonly otherRootKeys?: readonly RootKeyProvider[];
  /**
   * Looks for a root key that is in use but that this process does not hold, e.g. because another process began to rotate to it. Called at
   * each use until the key is found.
   */
  readonly findRootKey?: FindRootKey;
  readonly clock: Clock;
  /** The default for keys whose request names no durability. */
  readonly durability: KeyDurability;
  /** Maximum number of tenants whose unwrapped keys are in memory; 1000 by default. */
  readonly maxCachedTenants?: number;
  /** How long unwrapped keys stay in memory; 5 minutes by default. */
  readonly tenantKeyTimeToLiveMs?: number;
  /** Called at each look-up of a tenant's keys, with whether they were in memory. */
  readonly onTenantKeys?: (outcome: 'held' | 'loaded') => void;
  /** Called for each stored record that does not match its signature. */
  readonly onAltered?: AlterationObserver;
}

export interface KeyRing extends KeyDestruction, Sealing, UnsignedRecords {
  /** Creates the keys of a tenant; does nothing when the tenant has keys. @throws TenantKeysMissingError when it was destroyed. */
  createTenantKeys(tenantId: string): Promise<void>;
  /** The tenant's keyed hashes. Use them at once; do not keep them. @throws TenantKeysMissingError */
  hashes(tenantId: string): Promise<TenantHashes>;
  /**
   * Makes a data key for an entity. Concurrent calls share round trips.
   * @throws TenantKeysMissingError, also from `stored` when another replica has just destroyed the tenant.
   */
  createDataKey(request: DataKeyRequest): Promise<NewDataKey>;
  /**
   * Reads a data key. Concurrent calls share round trips.
   * @throws KeyDestroyedError when the key is destroyed, expired, or of another tenant.
   * @throws SealBrokenError when the stored row was altered.
   */
  openKey(tenantId: string, keyId: string): Promise<DataKey>;
  /**
   * Removes the keys of a tenant from memory, after another replica has destroyed them (it notifies `tenant_keys_destroyed`). These keys
   * open no value any more; removing them leaves no copy in memory.
   */
  forgetTenant(tenantId: string): void;
  /** See `rotateTenant` in tenant-rotation.ts: online, resumable; returns the number of data keys that were wrapped again. */
  rotateTenant(tenantId: string): Promise<number>;
  /** See `rotateRoot` in root-rotation.ts: online, resumable; returns the number of tenant keys that were wrapped again. */
  rotateRoot(to: RootKeyProvider): Promise<number>;
}

const defaultMaxCachedTenants = 1000;
const defaultTimeToLiveMs = 5 * 60_000;

function holdTenantKeys(options: KeyRingOptions, rootKeys: RootKeySet): TenantKeys {
  return new TenantKeys({
    pool: options.pool,
    rootKeys,
    clock: options.clock,
    maxTenants: options.maxCachedTenants ?? defaultMaxCachedTenants,
    timeToLiveMs: options.tenantKeyTimeToLiveMs ?? defaultTimeToLiveMs,
    onLookup: options.onTenantKeys,
    onAltered: options.onAltered,
  });
}

/**
 * Opens the key ring in Postgres (`keyRingMigrations` must be applied) and checks the root key. The first call on a new database stores the
 * root key's check value.
 * @throws WrongRootKeyError with one line for the operator.
 */
export async function createKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const { pool, clock } = options;
  const rootKeys = new RootKeySet(options.rootKey, options.otherRootKeys ?? [], options.findRootKey);
  await rootKeys.checkOrInitialise(pool, clock);
  const tenantKeys = holdTenantKeys(options, rootKeys);
  const storeDataKey = createDataKeyInserts(pool, tenantKeys);
  const findDataKey = createDataKeyLookups(pool, tenantKeys, clock);
  const destruction = createKeyDestruction(pool, tenantKeys, clock);

  async function openKey(tenantId: string, keyId: string): Promise<DataKey> {
    requireUuid(keyId, 'key id');
    return findDataKey({ tenantId, keyId });
  }

  async function createDataKey(request: DataKeyRequest): Promise<NewDataKey> {
    const now = clock.now();
    const identity = identify(request, now);
    const { current } = await tenantKeys.get(request.tenantId);
    const bytes = randomOf(keyLength);
    const stored = storeDataKey({
      ...identity,
      wrappedBy: current,
      wrapped: wrapDataKey(current, identity, bytes),
      createdAt: now.toISOString(),
      destroyAfter: request.destroyAfter?.toISOString() ?? null,
      durability: request.durability ?? options.durability,
    });
    // If a caller stops before it awaits `stored`, an unhandled rejection must not end the process.
    stored.catch(() => undefined);
    return { key: new DataKey(identity, bytes), stored };
  }

  return {
    ...checked(destruction),
    ...createSealing({ createDataKey, openKey }),
    ...createUnsignedRecords(pool, tenantKeys),
    openKey,
    createDataKey,
    forgetTenant: (tenantId) => tenantKeys.forget(tenantId),

    async createTenantKeys(tenantId) {
      requireUuid(tenantId, 'tenant id');
      await createTenantKeys({ pool, rootKeys, clock }, tenantId);
    },

    async rotateTenant(tenantId) {
      requireUuid(tenantId, 'tenant id');
      return rotateTenant({ pool, rootKeys, tenantKeys, clock }, tenantId);
    },

    rotateRoot: (to) => rotateRoot(pool, rootKeys, clock, to),

    async hashes(tenantId) {
      requireUuid(tenantId, 'tenant id');
      return (await tenantKeys.get(tenantId)).hashes;
    },
  };
}

function identify(request: DataKeyRequest, now: Date) {
  const { tenantId, entity, purpose } = request;
  requireUuid(tenantId, 'tenant id');
  requireText(entity, 'entity');
  requireText(purpose, 'purpose');
  return { id: newKeyId(now.getTime()), tenantId, entity, purpose };
}

/** Checks the arguments before they join a batch. */
function checked(destruction: KeyDestruction): KeyDestruction {
  return {
    ...destruction,
    async destroyKeys(tenantId, keyIds) {
      requireUuid(tenantId, 'tenant id');
      for (const keyId of keyIds) requireUuid(keyId, 'key id');
      return destruction.destroyKeys(tenantId, keyIds);
    },
    async destroyKeysOfEntity(tenantId, entity) {
      requireUuid(tenantId, 'tenant id');
      requireText(entity, 'entity');
      return destruction.destroyKeysOfEntity(tenantId, entity);
    },
    async destroyAllOfTenant(tenantId) {
      requireUuid(tenantId, 'tenant id');
      return destruction.destroyAllOfTenant(tenantId);
    },
  };
}
