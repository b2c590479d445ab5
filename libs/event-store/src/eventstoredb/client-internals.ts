import type { EventStoreDBClient } from '@eventstore/db-client';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';

export type StreamsClient = InstanceType<typeof streamsGrpc.StreamsClient>;
type CallMetadata = NonNullable<Parameters<StreamsClient['read']>[1]>;

/** Members of the client that its types do not declare. This adapter uses or replaces them. */
export interface ClientInternals {
  supports: () => Promise<boolean>;
  handleError: (...details: unknown[]) => Promise<void>;
  getChannel: () => Promise<Channel>;
  readonly GRPCStreamCreator: <Call>(
    service: typeof streamsGrpc.StreamsClient,
    name: string,
    create: (client: StreamsClient) => Call,
  ) => () => Promise<Call>;
  readonly callArguments: (
    options: object,
    callOptions: { readonly deadline: number },
  ) => [CallMetadata, object];
}

export interface Channel {
  close(): void;
  readonly internalChannel?: { readonly credentials?: object };
}

const members: readonly (keyof ClientInternals)[] = [
  'supports',
  'handleError',
  'getChannel',
  'GRPCStreamCreator',
  'callArguments',
];

function hasInternals(client: object): client is ClientInternals {
  return members.every((member) => typeof Reflect.get(client, member) === 'function');
}

/** @throws Error when this version of the client lacks one of the members. */
export function internalsOf(client: object): ClientInternals {
  if (hasInternals(client)) return client;
  throw new Error(
    'this version of @eventstore/db-client has other internal members: see libs/event-store/src/eventstoredb',
  );
}

/** Makes a call without a deadline. `create` gets the arguments that every call needs. */
export function makeCall<Call>(
  client: EventStoreDBClient,
  name: string,
  create: (client: StreamsClient, callArguments: [CallMetadata, object]) => Call,
): Promise<Call> {
  const internals = internalsOf(client);
  const start = internals.GRPCStreamCreator(streamsGrpc.StreamsClient, name, (streams) =>
    create(streams, internals.callArguments({}, { deadline: Infinity })),
  );
  return start();
}
