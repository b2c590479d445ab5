import type { AllStreamResolvedEvent, Position, ResolvedEvent } from '@eventstore/db-client';
import type streams from '@eventstore/db-client/generated/streams_pb.js';

/** An event in the form of the client, of the vault or of another application. */
export type ServerEvent = NonNullable<ResolvedEvent['event'] | AllStreamResolvedEvent['event']>;

/** An event as stored on the server: the client would parse its metadata, and the original text would be lost. */
export interface RawEvent {
  readonly streamId: string;
  readonly revision: number;
  readonly position: Position;
  readonly id: string;
  readonly type: string;
  readonly data: Uint8Array;
  readonly metadata: Uint8Array;
}

const utf8 = new TextDecoder();

export function rawEventOf(read: streams.ReadResp.ReadEvent): { readonly event?: RawEvent } {
  const event = read.getEvent();
  if (!event) return {};
  return {
    event: {
      streamId: utf8.decode(event.getStreamIdentifier()?.getStreamName_asU8()),
      revision: Number(event.getStreamRevision()),
      position: { commit: BigInt(event.getCommitPosition()), prepare: BigInt(event.getPreparePosition()) },
      id: event.getId()?.getString() ?? '',
      type: event.getMetadataMap().get('type') ?? '',
      data: event.getData_asU8(),
      metadata: event.getCustomMetadata_asU8(),
    },
  };
}

/** Types of system events begin with `$`, in any stream: metadata, tombstones, links, statistics. */
export function isSystemEvent({ type, streamId }: Pick<ServerEvent, 'type' | 'streamId'>): boolean {
  return type.startsWith('$') || streamId.startsWith('$');
}
