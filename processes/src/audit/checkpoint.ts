import { AuditCheckpointSigned, type DataOf } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';

export type Checkpoint = DataOf<'AuditCheckpointSigned'>;
export type Unsigned = Omit<Checkpoint, 'public_key' | 'signature'>;

/** The PKCS #8 and SPKI beginnings of an Ed25519 key (RFC 8410), before its 32 bytes. */
const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex');
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex');

/** Signs what a tenant's log was. The key lives as long as the tenant and survives rotations. */
export interface Signer {
  readonly publicKey: string;
  sign(checkpoint: Unsigned): Checkpoint;
}

/** @throws TenantKeysMissingError when the tenant's keys were destroyed. */
export async function signerOf(keyRing: Pick<KeyRing, 'hashes'>, tenantId: string): Promise<Signer> {
  const seed = (await keyRing.hashes(tenantId)).macKey('audit signature');
  const key = createPrivateKey({
    key: Buffer.concat([privatePrefix, seed]),
    format: 'der',
    type: 'pkcs8',
  });
  const publicKey = rawPublicKey(createPublicKey(key));
  return {
    publicKey,
    sign: (checkpoint) => ({
      ...checkpoint,
      public_key: publicKey,
      signature: sign(null, bytesOf(checkpoint), key).toString('base64url'),
    }),
  };
}

const rawPublicKey = (key: KeyObject): string =>
  key.export({ format: 'der', type: 'spki' }).subarray(publicPrefix.length).toString('base64url');

function bytesOf({ tenant_id, after, through, count, head, digests }: Unsigned): Buffer {
  return Buffer.from(
    JSON.stringify(['token-vault audit checkpoint 1', tenant_id, after, through, count, head, digests]),
  );
}

/** @param publicKey raw, base64url: one that is known to be the tenant's, not the one the checkpoint names. */
export function isSignedBy(checkpoint: Checkpoint, publicKey: string): boolean {
  const raw = Buffer.from(publicKey, 'base64url');
  if (raw.length !== 32) return false;
  const key = createPublicKey({ key: Buffer.concat([publicPrefix, raw]), format: 'der', type: 'spki' });
  return verify(null, bytesOf(checkpoint), key, Buffer.from(checkpoint.signature, 'base64url'));
}

/** Undefined when the text of the event's data is not that of a checkpoint. */
export function parseCheckpoint(data: string): Checkpoint | undefined {
  return AuditCheckpointSigned.schema.safeParse(JSON.parse(data)).data;
}
