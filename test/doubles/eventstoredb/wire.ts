import { Metadata, status, type ServerErrorResponse } from '@grpc/grpc-js';
import anyPb from 'google-protobuf/google/protobuf/any_pb.js';
import type { Message } from 'google-protobuf';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import statusPb from '@eventstore/db-client/generated/status_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import type { Proposed, Recorded } from './log.ts';

// The shapes of the protocol, on the client package's own message classes.

interface ProposedMessage {
  getId(): shared.UUID | undefined;
  getMetadataMap(): { get(key: string): string | undefined };
  getData_asU8(): Uint8Array;
  getCustomMetadata_asU8(): Uint8Array;
}

export function proposed(message: ProposedMessage | undefined): Proposed {
  if (!message) throw new Error('no message');
  return {
    id: uuidText(message.getId()),
    type: message.getMetadataMap().get('type') ?? '',
    contentType: message.getMetadataMap().get('content-type') ?? '',
    data: message.getData_asU8(),
    metadata: message.getCustomMetadata_asU8(),
  };
}

/** Clients send ids as text, or as two signed halves. */
export function uuidText(uuid: shared.UUID | undefined): string {
  const halves = uuid?.getStructured();
  if (!halves) return uuid?.getString().toLowerCase() ?? '';
  const bytes = Buffer.alloc(16);
  bytes.writeBigInt64BE(BigInt(halves.getMostSignificantBits()), 0);
  bytes.writeBigInt64BE(BigInt(halves.getLeastSignificantBits()), 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

export function streamName(identifier: shared.StreamIdentifier | undefined): string {
  return Buffer.from(identifier?.getStreamName_asU8() ?? []).toString('utf8');
}

export function identifierOf(name: string): shared.StreamIdentifier {
  const identifier = new shared.StreamIdentifier();
  identifier.setStreamName(Uint8Array.from(Buffer.from(name)));
  return identifier;
}

export function eventResponse(event: Recorded): streams.ReadResp {
  const recorded = new streams.ReadResp.ReadEvent.RecordedEvent();
  const id = new shared.UUID();
  id.setString(event.id);
  recorded.setId(id);
  recorded.setStreamIdentifier(identifierOf(event.stream));
  recorded.setStreamRevision(String(event.revision));
  recorded.setCommitPosition(String(event.position));
  recorded.setPreparePosition(String(event.position));
  recorded.setData(event.data);
  recorded.setCustomMetadata(event.metadata);
  const properties = recorded.getMetadataMap();
  properties.set('type', event.type);
  properties.set('content-type', event.contentType);
  // .NET ticks of 100 ns, since the Unix epoch.
  properties.set('created', String(BigInt(event.createdMs) * 10_000n));
  const readEvent = new streams.ReadResp.ReadEvent();
  readEvent.setEvent(recorded);
  readEvent.setCommitPosition(String(event.position));
  const response = new streams.ReadResp();
  response.setEvent(readEvent);
  return response;
}

export function notFoundResponse(name: string): streams.ReadResp {
  const notFound = new streams.ReadResp.StreamNotFound();
  notFound.setStreamIdentifier(identifierOf(name));
  const response = new streams.ReadResp();
  response.setStreamNotFound(notFound);
  return response;
}

export function confirmationResponse(): streams.ReadResp {
  const confirmation = new streams.ReadResp.SubscriptionConfirmation();
  confirmation.setSubscriptionId(crypto.randomUUID());
  const response = new streams.ReadResp();
  response.setConfirmation(confirmation);
  return response;
}

export function checkpointResponse(position: number): streams.ReadResp {
  const checkpoint = new streams.ReadResp.Checkpoint();
  checkpoint.setCommitPosition(String(position));
  checkpoint.setPreparePosition(String(position));
  const response = new streams.ReadResp();
  response.setCheckpoint(checkpoint);
  return response;
}

export function caughtUpResponse(): streams.ReadResp {
  const response = new streams.ReadResp();
  response.setCaughtUp(new streams.ReadResp.CaughtUp());
  return response;
}

export function rpcError(
  code: status,
  details: string,
  trailers: Readonly<Record<string, string | number>> = {},
): ServerErrorResponse {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(trailers)) metadata.set(key, String(value));
  return Object.assign(new Error(details), { code, details, metadata });
}

export function streamDeletedError(name: string): ServerErrorResponse {
  const trailers = { exception: 'stream-deleted', 'stream-name': name };
  return rpcError(status.FAILED_PRECONDITION, `Event stream '${name}' is deleted.`, trailers);
}

/** A google.rpc.Status with one detail, the answer of BatchAppend. */
export function statusOf(type: string, detail: Message): statusPb.Status {
  const any = new anyPb.Any();
  any.pack(detail.serializeBinary(), `event_store.client.${type}`);
  const result = new statusPb.Status();
  result.setMessage(type);
  result.setDetails(any);
  return result;
}
