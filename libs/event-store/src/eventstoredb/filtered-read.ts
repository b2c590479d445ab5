import {
  BACKWARDS,
  FORWARDS,
  type Direction,
  type EventStoreDBClient,
  type ReadPosition,
  type ReadRevision,
  type ResolvedEvent,
  type StreamingRead,
} from '@eventstore/db-client';
import { ReadStream } from '@eventstore/db-client/dist/streams/utils/ReadStream.js';
import { convertGrpcEvent } from '@eventstore/db-client/dist/utils/convertGrpcEvent.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';

/** A filter of stream names, in the form of the server. */
export type StreamFilter = { readonly prefixes: string[] } | { readonly regex: string };

interface Read {
  readonly direction?: Direction;
  readonly maxCount: number;
}

/** A read of `$all`. */
export interface LogRead extends Read {
  readonly from: ReadPosition;
  /** No filter if absent. */
  readonly filter?: StreamFilter;
}

/** A read of one stream. */
export interface StreamRead extends Read {
  readonly stream: string;
  readonly fromRevision: ReadRevision;
}

type StreamsClient = InstanceType<typeof streamsGrpc.StreamsClient>;
type Call = ReturnType<StreamsClient['read']>;

/** Members of the client that are not in its types. `Connection` checks that they exist. */
interface ClientInternals {
  GRPCStreamCreator(
    service: typeof streamsGrpc.StreamsClient,
    name: string,
    create: (client: StreamsClient) => Call,
  ): () => Promise<Call>;
  callArguments(
    options: object,
    callOptions: { readonly deadline: number },
  ): [Parameters<StreamsClient['read']>[1], object];
}

/** The number of events that the server examines before other calls get a turn. */
const searchWindow = 1_000;

/** As the client's `readAll`, which does not offer the filter of the protocol. */
export const readFiltered = (client: EventStoreDBClient, read: LogRead): StreamingRead<ResolvedEvent> =>
  readConverted(client, read, convertGrpcEvent);

/** A read whose messages `convert` turns into events. */
export function readConverted<Converted>(
  client: EventStoreDBClient,
  read: LogRead | StreamRead,
  convert: (event: streams.ReadResp.ReadEvent) => Converted,
): StreamingRead<Converted> {
  const internals = client as unknown as ClientInternals;
  const create = internals.GRPCStreamCreator(streamsGrpc.StreamsClient, 'readAll', (grpc) =>
    grpc.read(requestOf(read), ...internals.callArguments({}, { deadline: Infinity })),
  );
  return new ReadStream(create, convert, {});
}

function requestOf(read: LogRead | StreamRead): streams.ReadReq {
  const { direction = FORWARDS, maxCount } = read;
  const options = new streams.ReadReq.Options();
  const ids = new streams.ReadReq.Options.UUIDOption();
  ids.setString(new shared.Empty());
  options.setUuidOption(ids);
  options.setReadDirection(direction === BACKWARDS ? 1 : 0);
  options.setResolveLinks(false);
  options.setCount(String(maxCount));
  if ('stream' in read) options.setStream(streamPlaceOf(read));
  else options.setAll(placeOf(read.from));
  if ('filter' in read && read.filter) options.setFilter(filterOf(read.filter));
  else options.setNoFilter(new shared.Empty());
  const request = new streams.ReadReq();
  request.setOptions(options);
  return request;
}

function placeOf(from: ReadPosition): streams.ReadReq.Options.AllOptions {
  const place = new streams.ReadReq.Options.AllOptions();
  if (from === 'start') place.setStart(new shared.Empty());
  else if (from === 'end') place.setEnd(new shared.Empty());
  else {
    const position = new streams.ReadReq.Options.Position();
    position.setCommitPosition(String(from.commit));
    position.setPreparePosition(String(from.prepare));
    place.setPosition(position);
  }
  return place;
}

function streamPlaceOf({ stream, fromRevision }: StreamRead): streams.ReadReq.Options.StreamOptions {
  const identifier = new shared.StreamIdentifier();
  identifier.setStreamName(new TextEncoder().encode(stream));
  const place = new streams.ReadReq.Options.StreamOptions();
  place.setStreamIdentifier(identifier);
  if (fromRevision === 'start') place.setStart(new shared.Empty());
  else if (fromRevision === 'end') place.setEnd(new shared.Empty());
  else place.setRevision(String(fromRevision));
  return place;
}

function filterOf(filter: StreamFilter): streams.ReadReq.Options.FilterOptions {
  const expression = new streams.ReadReq.Options.FilterOptions.Expression();
  if ('prefixes' in filter) expression.setPrefixList(filter.prefixes);
  else expression.setRegex(filter.regex);
  const options = new streams.ReadReq.Options.FilterOptions();
  options.setStreamIdentifier(expression);
  options.setMax(searchWindow);
  options.setCheckpointintervalmultiplier(1);
  return options;
}
