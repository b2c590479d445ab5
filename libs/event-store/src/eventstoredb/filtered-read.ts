import {
  BACKWARDS,
  FORWARDS,
  type AllStreamResolvedEvent,
  type Direction,
  type EventStoreDBClient,
  type ReadPosition,
  type StreamingRead,
} from '@eventstore/db-client';
import { ReadStream } from '@eventstore/db-client/dist/streams/utils/ReadStream.js';
import { convertGrpcEvent } from '@eventstore/db-client/dist/utils/convertGrpcEvent.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';

/** The filter of stream names, as the server takes it. */
export type StreamFilter = { readonly prefixes: string[] } | { readonly regex: string };

/** A read of `$all`. */
export interface LogRead {
  readonly from: ReadPosition;
  readonly direction?: Direction;
  readonly maxCount: number;
  /** Everything if absent. */
  readonly filter?: StreamFilter;
}

type StreamsClient = InstanceType<typeof streamsGrpc.StreamsClient>;
type Call = ReturnType<StreamsClient['read']>;

/** Members of the client that are not in its types. `Connection` looks whether they are there. */
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

/** Events that the server looks at before it gives others a turn. */
const searchWindow = 1_000;

/** As the client's `readAll`, which has no filter though the protocol does. */
export function readFiltered(
  client: EventStoreDBClient,
  read: LogRead,
): StreamingRead<AllStreamResolvedEvent> {
  const internals = client as unknown as ClientInternals;
  const create = internals.GRPCStreamCreator(streamsGrpc.StreamsClient, 'readAll', (grpc) =>
    grpc.read(requestOf(read), ...internals.callArguments({}, { deadline: Infinity })),
  );
  return new ReadStream(create, convertGrpcEvent, {});
}

function requestOf({ from, direction = FORWARDS, maxCount, filter }: LogRead): streams.ReadReq {
  const options = new streams.ReadReq.Options();
  const ids = new streams.ReadReq.Options.UUIDOption();
  ids.setString(new shared.Empty());
  options.setUuidOption(ids);
  options.setAll(placeOf(from));
  options.setReadDirection(direction === BACKWARDS ? 1 : 0);
  options.setResolveLinks(false);
  options.setCount(String(maxCount));
  if (filter) options.setFilter(filterOf(filter));
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
