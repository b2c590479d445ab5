import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';

/** The PKCS #8 and SPKI prefixes of an Ed25519 key (RFC 8410), which precede its 32 bytes. */
const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex');
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex');

/** Signs checkpoints of a tenant's log, cursors of its verification and erasure certificates. The key lives as long as the tenant and survives rotations. */
export interface Signer {
  /** Raw, base64url. */
  readonly publicKey: string;
  /** Base64url. The text begins with its kind, so that a signature is valid for one kind only. */
  sign(text: string): string;
}

/** @throws TenantKeysMissingError when the tenant's keys were destroyed. */
export async function signerOf(keyRing: Pick<KeyRing, 'hashes'>, tenantId: string): Promise<Signer> {
  const seed = (await keyRing.hashes(tenantId)).macKey('audit signature').export();
  const key = createPrivateKey({
    key: Buffer.concat([privatePrefix, seed]),
    format: 'der',
    type: 'pkcs8',
  });
  return {
    publicKey: rawPublicKey(createPublicKey(key)),
    sign: (text) => sign(null, Buffer.from(text), key).toString('base64url'),
  };
}

/** Raw, base64url: for a verifier outside the vault, of an export or a certificate. @throws as `signerOf` */
export const auditPublicKey = async (keyRing: Pick<KeyRing, 'hashes'>, tenantId: string): Promise<string> =>
  (await signerOf(keyRing, tenantId)).publicKey;

/** As `auditPublicKey`. Undefined when the tenant's keys were destroyed. */
export async function publicKeyOf(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenantId: string,
): Promise<string | undefined> {
  try {
    return await auditPublicKey(keyRing, tenantId);
  } catch (error) {
    if (error instanceof TenantKeysMissingError) return undefined;
    throw error;
  }
}

const rawPublicKey = (key: KeyObject): string =>
  key.export({ format: 'der', type: 'spki' }).subarray(publicPrefix.length).toString('base64url');

/** @param publicKey raw, base64url: a key that is known to be the tenant's, not the key that the signed text names. */
export function isSignature(text: string, publicKey: string, signature: string): boolean {
  const raw = Buffer.from(publicKey, 'base64url');
  const bytes = Buffer.from(signature, 'base64url');
  // Several texts stand for the same bytes. A stored signature in another one than the vault wrote was changed.
  if (raw.length !== 32 || bytes.toString('base64url') !== signature) return false;
  const key = createPublicKey({ key: Buffer.concat([publicPrefix, raw]), format: 'der', type: 'spki' });
  return verify(null, Buffer.from(text), key, bytes);
}
