import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import type { AppendRequest } from '../append-request.ts';
import type { EncodedEvent } from '../codec.ts';
import type { ExpectedRevision } from '../port.ts';
import { proposedEvent } from './recorded.ts';

/** The message of a whole append. Its correlation id consists of `prefix` and `number`, decimal numbers of 64 bits. */
export function batchAppendRequest(
  { stream, expected, events }: AppendRequest,
  prefix: string,
  number: string,
): streams.BatchAppendReq {
  const request = new streams.BatchAppendReq();
  request.setCorrelationId(correlationId(prefix, number));
  request.setOptions(optionsOf(stream, expected));
  request.setProposedMessagesList(events.map(proposedMessage));
  request.setIsFinal(true);
  return request;
}

/** The number of the append that is answered. */
export const correlationIdOf = (response: streams.BatchAppendResp): string =>
  response.getCorrelationId()?.getStructured()?.getLeastSignificantBits() ?? '';

function correlationId(prefix: string, number: string): shared.UUID {
  const bits = new shared.UUID.Structured();
  bits.setMostSignificantBits(prefix);
  bits.setLeastSignificantBits(number);
  const id = new shared.UUID();
  id.setStructured(bits);
  return id;
}

/**
 * Has no deadline: in the protocol a deadline is a time of day, so a server whose clock is ahead would refuse every append. The server has
 * a limit of 2 s.
 */
function optionsOf(stream: string, expected: ExpectedRevision): streams.BatchAppendReq.Options {
  const identifier = new shared.StreamIdentifier();
  identifier.setStreamName(new TextEncoder().encode(stream));
  const options = new streams.BatchAppendReq.Options();
  options.setStreamIdentifier(identifier);
  if (expected === 'any') options.setAny(new shared.Empty());
  else if (expected === 'no-stream') options.setNoStream(new shared.Empty());
  else if (expected === 'exists') options.setStreamExists(new shared.Empty());
  else options.setStreamPosition(String(expected));
  return options;
}

function proposedMessage(event: EncodedEvent): streams.BatchAppendReq.ProposedMessage {
  const { id, type, contentType, data, metadata } = proposedEvent(event);
  const identifier = new shared.UUID();
  identifier.setString(id);
  const message = new streams.BatchAppendReq.ProposedMessage();
  message.setId(identifier);
  message.getMetadataMap().set('type', type).set('content-type', contentType);
  message.setData(data);
  message.setCustomMetadata(metadata);
  return message;
}
