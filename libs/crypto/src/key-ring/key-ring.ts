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
  /** Of the primary. The ring never ends it. */
  readonly pool: Pool;
  readonly rootKey: RootKeyProvider;
  /** While the root key is being rotated: the other one. */
  readonly otherRootKeys?: readonly RootKeyProvider[];
  /**
   * Looks for a root key that is in use but not held, as when another process has begun to rotate to it. Asked at each
   * use until it is found.
   */
  readonly findRootKey?: FindRootKey;
  readonly clock: Clock;
  /** Of keys whose request says nothing else. */
  readonly durability: KeyDurability;
  /** Tenants whose unwrapped keys are held in memory at once; 1000 by default. */
  readonly maxCachedTenants?: number;
  /** How long they are held; 5 minutes by default. */
  readonly tenantKeyTimeToLiveMs?: number;
  /** Told of each look-up of a tenant's keys, whether they were held in memory. */
  readonly onTenantKeys?: (outcome: 'held' | 'loaded') => void;
  /** Told of each stored record that does not say what was signed. */
  readonly onAltered?: AlterationObserver;
}

export interface KeyRing extends KeyDestruction, Sealing, UnsignedRecords {
  /** Gives a tenant its keys; does nothing when it has them. @throws TenantKeysMissingError when it was destroyed. */
  createTenantKeys(tenantId: string): Promise<void>;
  /** The tenant's keyed hashes; use them at once, do not hold them. @throws TenantKeysMissingError */
  hashes(tenantId: string): Promise<TenantHashes>;
  /**
   * Makes a data key for an entity. Concurrent calls share round trips.
   * @throws TenantKeysMissingError, also from `stored` when the tenant was destroyed by another replica just now.
   */
  createDataKey(request: DataKeyRequest): Promise<NewDataKey>;
  /**
   * Fetches a data key. Concurrent calls share round trips.
   * @throws KeyDestroyedError when it is destroyed, past its time, or not of this tenant.
   * @throws SealBrokenError when the stored row was altered.
   */
  openKey(tenantId: string, keyId: string): Promise<DataKey>;
  /**
   * Drops what is held in memory of a tenant whose keys another replica has destroyed, which tells so by
   * `tenant_keys_destroyed`. They open nothing any more; this is so that they are nowhere.
   */
  forgetTenant(tenantId: string): void;
  /** See `rotateTenant` in tenant-rotation.ts: online, resumable; gives the number of data keys wrapped anew. */
  rotateTenant(tenantId: string): Promise<number>;
  /** See `rotateRoot` in root-rotation.ts: online, resumable; gives the number of tenant keys wrapped anew. */
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
 * Opens the key ring in Postgres (`keyRingMigrations` must be applied) and checks the root key; the first call ever
 * stores the root key's check value.
 * @throws WrongRootKeyError with one line for the operator.
 */
export async function createKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const { pool, clock } = options;
  const rootKeys = new RootKeySet(options.rootKey, options.otherRootKeys ?? [], options.findRootKey);
  await rootKeys.check(pool, clock);
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
    // A caller that gives up before it awaits `stored` must not bring the process down.
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

/** Arguments are checked before they join a batch. */
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
