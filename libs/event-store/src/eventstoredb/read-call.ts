import type { EventStoreDBClient } from '@eventstore/db-client';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { startPosition, type Position } from '../port.ts';
import { makeCall, type StreamsClient } from './client-internals.ts';
import { decodeReadMessage } from './read-message.ts';

/** A filter of stream names, in the form of the server. */
export type StreamFilter = { readonly prefixes: string[] } | { readonly regex: string };

interface Page {
  readonly isBackwards?: boolean;
  readonly maxCount: number;
}

/** A read of `$all`, inclusive of `from`. */
export interface LogRead extends Page {
  readonly from: Position | 'end';
  /** No filter if absent. */
  readonly filter?: StreamFilter;
}

/** A read of one stream, inclusive of `from`. */
export interface StreamRead extends Page {
  readonly stream: string;
  readonly from: number | 'end';
}

/** `$all` after `after` (exclusive), then live. */
export interface Subscription {
  readonly after: Position;
  readonly filter: StreamFilter;
  /** The number of events that the server examines between two checkpoints. */
  readonly checkpointEvery: number;
}

/** A stream of `ReadMessage`s. */
export type ReadCall = ReturnType<StreamsClient['makeServerStreamRequest']>;

/** The number of events that the server examines before it serves other calls. */
const searchWindow = 1_000;

const { path, requestSerialize } = streamsGrpc.StreamsService.read;

/**
 * Makes a Read call. The client's own readers have no filter for a page of `$all`, parse the metadata, and take several times as long for
 * each event. `listen` gets the call before it can fail.
 */
export function makeReadCall(
  client: EventStoreDBClient,
  read: LogRead | StreamRead | Subscription,
  listen: (call: ReadCall) => void,
): Promise<ReadCall> {
  const request = requestOf(read);
  return makeCall(client, 'read', (grpc, callArguments) => {
    const call = grpc.makeServerStreamRequest(
      path,
      requestSerialize,
      decodeReadMessage,
      request,
      ...callArguments,
    );
    listen(call);
    return call;
  });
}

function requestOf(read: LogRead | StreamRead | Subscription): streams.ReadReq {
  const options = new streams.ReadReq.Options();
  const ids = new streams.ReadReq.Options.UUIDOption();
  ids.setString(new shared.Empty());
  options.setUuidOption(ids);
  options.setResolveLinks(false);
  options.setNoFilter(new shared.Empty());
  if ('after' in read) setSubscription(options, read);
  else {
    options.setReadDirection(read.isBackwards ? 1 : 0);
    options.setCount(String(read.maxCount));
    if ('stream' in read) options.setStream(streamPlaceOf(read));
    else {
      options.setAll(placeOf(read.from));
      if (read.filter) options.setFilter(filterOf(read.filter, searchWindow));
    }
  }
  const request = new streams.ReadReq();
  request.setOptions(options);
  return request;
}

function setSubscription(
  options: streams.ReadReq.Options,
  { after, filter, checkpointEvery }: Subscription,
): void {
  options.setSubscription(new streams.ReadReq.Options.SubscriptionOptions());
  options.setAll(placeOf(after));
  options.setFilter(filterOf(filter, checkpointEvery));
}

function placeOf(from: Position | 'end'): streams.ReadReq.Options.AllOptions {
  const place = new streams.ReadReq.Options.AllOptions();
  if (from === startPosition) place.setStart(new shared.Empty());
  else if (from === 'end') place.setEnd(new shared.Empty());
  else {
    // Commit and prepare position are equal except in explicit transactions of very old clients.
    const position = new streams.ReadReq.Options.Position();
    position.setCommitPosition(from);
    position.setPreparePosition(from);
    place.setPosition(position);
  }
  return place;
}

function streamPlaceOf({ stream, from }: StreamRead): streams.ReadReq.Options.StreamOptions {
  const identifier = new shared.StreamIdentifier();
  identifier.setStreamName(new TextEncoder().encode(stream));
  const place = new streams.ReadReq.Options.StreamOptions();
  place.setStreamIdentifier(identifier);
  if (from === 'end') place.setEnd(new shared.Empty());
  else place.setRevision(String(from));
  return place;
}

function filterOf(filter: StreamFilter, window: number): streams.ReadReq.Options.FilterOptions {
  const expression = new streams.ReadReq.Options.FilterOptions.Expression();
  if ('prefixes' in filter) expression.setPrefixList(filter.prefixes);
  else expression.setRegex(filter.regex);
  const options = new streams.ReadReq.Options.FilterOptions();
  options.setStreamIdentifier(expression);
  options.setMax(window);
  options.setCheckpointintervalmultiplier(1);
  return options;
}
