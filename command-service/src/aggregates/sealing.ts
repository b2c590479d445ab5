import type { Json } from '@token-vault/contracts';
import {
  keyIdOf,
  seal,
  type DataKey,
  type KeyRing,
  type SealContext,
  type SealedValue,
  type Secret,
} from '@token-vault/crypto';

function sealAndWipe(key: DataKey, place: SealContext, value: Secret<Json>): SealedValue {
  try {
    return seal(key, place, value);
  } finally {
    key.wipe();
  }
}

/**
 * Seals an entity's first value under a data key of its own; resolves when the key is durable, so that the event may follow. For what
 * is made seldom: others save the flush and give the append their keys.
 */
export async function sealFirst(
  keyRing: Pick<KeyRing, 'createDataKey'>,
  place: SealContext,
  value: Secret<Json>,
): Promise<SealedValue> {
  const { tenantId, entity, field: purpose } = place;
  const { key, stored } = await keyRing.createDataKey({ tenantId, entity, purpose, durability: 'own' });
  const sealed = sealAndWipe(key, place, value);
  await stored;
  return sealed;
}

/**
 * Seals a later value under the key of the one before, so that destroying one key erases every version of it, and who reads
 * the old version while it is being replaced can still open it. @throws KeyDestroyedError
 */
export async function sealAgain(
  keyRing: Pick<KeyRing, 'openKey'>,
  place: SealContext,
  before: SealedValue,
  value: Secret<Json>,
): Promise<SealedValue> {
  return sealAndWipe(await keyRing.openKey(place.tenantId, keyIdOf(before)), place, value);
}
