import { AuditCheckpointSigned, streams, type DataOf, type EventMetadata } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { parseJson } from './parse-json.ts';
import { isSignature, type Signer } from './signature.ts';

export type CheckpointData = DataOf<'AuditCheckpointSigned'>;
type Unsigned = Omit<CheckpointData, 'public_key' | 'signature'>;

/** A checkpoint as it is stored. */
export interface Checkpoint extends CheckpointData {
  /** Of the event: 1 in the form of older releases. */
  readonly version: number;
  /** What its signature is over. */
  readonly signedText: string;
}

/** A checkpoint that is not signed yet, and its place. */
interface NewCheckpoint {
  readonly stream: string;
  readonly revision: number;
  readonly id: string;
  readonly data: Unsigned;
  readonly metadata: EventMetadata;
}

/** @returns the data of the event */
export function signCheckpoint(signer: Signer, checkpoint: NewCheckpoint): CheckpointData {
  const data = { ...checkpoint.data, public_key: signer.publicKey };
  const { type, version } = AuditCheckpointSigned;
  const texts = { data: JSON.stringify(data), metadata: JSON.stringify(checkpoint.metadata) };
  return { ...data, signature: signer.sign(textOf({ ...checkpoint, type, version, ...texts })) };
}

/** All of the event as it is stored, but its position, which nobody knows before the append. `data` is without the signature. */
function textOf(event: Omit<StoredEvent, 'position'>): string {
  const { stream, revision, version, id, type, data, metadata } = event;
  const head = ['token-vault audit checkpoint 2', stream, revision, version, id, type, data.length];
  return `${JSON.stringify(head)}\n${data}\n${metadata}`;
}

/** The signature is the last field of the data. Undefined when the data do not end with it. */
function signedTextOf(event: StoredEvent, { signature }: CheckpointData): string | undefined {
  const end = `,"signature":"${signature}"}`;
  if (!event.data.endsWith(end)) return undefined;
  return textOf({ ...event, data: `${event.data.slice(0, -end.length)}}` });
}

/**
 * Older releases signed these fields alone. Undefined when anything else is not as they wrote it. The time, the id and the trace of such a
 * checkpoint cannot be checked.
 */
function olderTextOf({ data, metadata }: StoredEvent, checkpoint: CheckpointData): string | undefined {
  const { tenant_id, after, through, count, head, digests } = checkpoint;
  const written = olderMetadata.exec(metadata);
  if (data !== JSON.stringify(checkpoint) || written?.[1] !== tenant_id) return undefined;
  return JSON.stringify(['token-vault audit checkpoint 1', tenant_id, after, through, count, head, digests]);
}

const olderMetadata =
  /^\{"tenant_id":"([\da-f-]{36})","actor":\{"kind":"system","id":"audit"\},"trace_id":"([\da-f-]{36})","correlation_id":"\2","occurred_at":"[\d:.TZ-]{24}"\}$/;

/** @param publicKey raw, base64url: a key that is known to be the tenant's, not the key that the checkpoint names. */
export function isSignedBy({ signedText, signature, public_key }: Checkpoint, publicKey: string): boolean {
  return public_key === publicKey && isSignature(signedText, publicKey, signature);
}

/** The vault signs each event once, so each checkpoint reaches further than the one before it, and none is in an older form. */
export const isFollowing = (
  next: Pick<Checkpoint, 'through' | 'version'>,
  before: { readonly through: bigint | string; readonly version: number } | undefined,
): boolean => !before || (BigInt(next.through) > BigInt(before.through) && next.version >= before.version);

/**
 * Undefined when the event is not a checkpoint, cannot be parsed, is in another stream than the checkpoints of its tenant, or is not as the
 * vault writes it.
 */
export function checkpointOf(event: StoredEvent): Checkpoint | undefined {
  const { type, version, stream, data } = event;
  if (type !== AuditCheckpointSigned.type) return undefined;
  const checkpoint = AuditCheckpointSigned.schema.safeParse(parseJson(data)).data;
  if (!checkpoint || stream !== streams.audit(checkpoint.tenant_id)) return undefined;
  const signedText = version === 1 ? olderTextOf(event, checkpoint) : signedTextOf(event, checkpoint);
  return signedText === undefined ? undefined : { ...checkpoint, version, signedText };
}
