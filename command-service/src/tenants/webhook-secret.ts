import { randomBytes } from 'node:crypto';
import {
  KeyDestroyedError,
  secret,
  type KeyRing,
  type SealContext,
  type SealedValue,
} from '@token-vault/crypto';

/** Standard Webhooks requires 24 to 64 random bytes. */
const secretBytes = 32;

/** `whsec_<base64>`, the format of the Standard Webhooks libraries. */
const generateWebhookSecret = (): string => `whsec_${randomBytes(secretBytes).toString('base64')}`;

/** The place (AAD) under which a tenant's webhook secret is sealed. query-service and reactor-runner use the same. */
const placeOf = (tenantId: string): SealContext => ({
  tenantId,
  entity: `tenant:${tenantId}`,
  field: 'webhook_secret',
});

export interface NewWebhookSecret {
  readonly plain: string;
  readonly sealed: SealedValue;
  /** It is sealed under a new data key, which the append must be given: the key of the earlier secrets is destroyed, or there was none. */
  readonly isFirstOfKey: boolean;
}

/**
 * Makes and seals a secret. When `before` is given, its data key is used again, so that a delivery in progress can
 * still sign.
 */
export async function sealNewWebhookSecret(
  keyRing: KeyRing,
  tenantId: string,
  before?: SealedValue,
): Promise<NewWebhookSecret> {
  const plain = generateWebhookSecret();
  const place = placeOf(tenantId);
  const sealNew = async () => ({
    plain,
    sealed: await keyRing.sealNew(place, secret(plain)),
    isFirstOfKey: true,
  });
  if (before === undefined) return sealNew();
  try {
    const sealed = await keyRing.sealAgain(place, before, secret(plain));
    return { plain, sealed, isFirstOfKey: false };
  } catch (error) {
    if (!(error instanceof KeyDestroyedError)) throw error;
    return sealNew();
  }
}
