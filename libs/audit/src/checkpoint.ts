import { AuditCheckpointSigned, streams, type DataOf } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { parseJson } from './parse-json.ts';
import { isSignature, type Signer } from './signature.ts';

export type Checkpoint = DataOf<'AuditCheckpointSigned'>;
export type Unsigned = Omit<Checkpoint, 'public_key' | 'signature'>;

export function signCheckpoint(signer: Signer, checkpoint: Unsigned): Checkpoint {
  return { ...checkpoint, public_key: signer.publicKey, signature: signer.sign(textOf(checkpoint)) };
}

const textOf = ({ tenant_id, after, through, count, head, digests }: Unsigned): string =>
  JSON.stringify(['token-vault audit checkpoint 1', tenant_id, after, through, count, head, digests]);

/** @param publicKey raw, base64url: a key that is known to be the tenant's, not the key that the checkpoint names. */
export function isSignedBy(checkpoint: Checkpoint, publicKey: string): boolean {
  return isSignature(textOf(checkpoint), publicKey, checkpoint.signature);
}

/** Undefined when the event is not a checkpoint, cannot be parsed, or is in another stream than the checkpoints of its tenant. */
export function checkpointOf({ type, stream, data }: StoredEvent): Checkpoint | undefined {
  if (type !== AuditCheckpointSigned.type) return undefined;
  const checkpoint = AuditCheckpointSigned.schema.safeParse(parseJson(data)).data;
  return checkpoint && stream === streams.audit(checkpoint.tenant_id) ? checkpoint : undefined;
}
