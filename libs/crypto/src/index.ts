export { isSecret, secret, Secret } from '@token-vault/contracts';
export * from './errors.ts';
export { DataKey, type DataKeyIdentity } from './data-key.ts';
export { isSealedValue, keyIdOf, open, seal, type SealContext, type SealedValue } from './sealed-value.ts';
export type { AlterationObserver, TenantHashes } from './tenant-hashes.ts';
export { newShare, openWithShares, sealWithShares } from './shared-seal.ts';
export { apiKeyTypes, equalHashes, generateApiKey, hashApiKey, type ApiKeyType } from './api-keys.ts';
export { encodeBase58 } from './base58.ts';
export type { RootKeyProvider } from './root-keys/port.ts';
export { environmentRootKey } from './root-keys/environment.ts';
export { fileRootKey, type FileRootKeyOptions } from './root-keys/file.ts';
export {
  isTransitRootKeyId,
  requireTransitOptions,
  transitKey,
  type TransitKey,
  type TransitOptions,
} from './root-keys/transit/index.ts';
export { dataKeyTable, keyRingMigrations, type Migration } from './key-ring/migrations.ts';
export { isKeyRingInitialised, rootKeysInUse, type FindRootKey } from './key-ring/root-key-set.ts';
export { readRotationState, type RotationState } from './key-ring/rotation-state.ts';
export { createKeyRing, type KeyRing, type KeyRingOptions } from './key-ring/key-ring.ts';
export type { DataKeyRequest, NewDataKey, PreparedSeal } from './key-ring/sealing.ts';
export type { KeyDurability } from './key-ring/data-key-inserts.ts';
export {
  remainingKeys,
  tenantsOfKeyRing,
  type DestroyedKey,
  type KeyDestruction,
} from './key-ring/destruction.ts';
export type { Clock } from './key-ring/clock.ts';
