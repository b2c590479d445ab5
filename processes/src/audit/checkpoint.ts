import { AuditCheckpointSigned, type DataOf } from '@token-vault/contracts';
import { isSignature, type Signer } from './signature.ts';

export type Checkpoint = DataOf<'AuditCheckpointSigned'>;
export type Unsigned = Omit<Checkpoint, 'public_key' | 'signature'>;

export function signCheckpoint(signer: Signer, checkpoint: Unsigned): Checkpoint {
  return { ...checkpoint, public_key: signer.publicKey, signature: signer.sign(textOf(checkpoint)) };
}

const textOf = ({ tenant_id, after, through, count, head, digests }: Unsigned): string =>
  JSON.stringify(['token-vault audit checkpoint 1', tenant_id, after, through, count, head, digests]);

/** @param publicKey raw, base64url: one that is known to be the tenant's, not the one the checkpoint names. */
export function isSignedBy(checkpoint: Checkpoint, publicKey: string): boolean {
  return isSignature(textOf(checkpoint), publicKey, checkpoint.signature);
}

/** Undefined when the text of the event's data is not that of a checkpoint. */
export function parseCheckpoint(data: string): Checkpoint | undefined {
  return AuditCheckpointSigned.schema.safeParse(JSON.parse(data)).data;
}
