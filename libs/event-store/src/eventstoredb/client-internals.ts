import type { EventStoreDBClient } from '@eventstore/db-client';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';

export type StreamsClient = InstanceType<typeof streamsGrpc.StreamsClient>;
type CallMetadata = NonNullable<Parameters<StreamsClient['read']>[1]>;

/** Members of the client that this adapter uses or replaces, and that are not in its types. */
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

export const internalsOf = (client: EventStoreDBClient): ClientInternals =>
  client as unknown as ClientInternals;

/** @throws Error when this version of the client does not have them. */
export function checkInternals(client: EventStoreDBClient): void {
  const { supports, handleError, getChannel, GRPCStreamCreator, callArguments } = internalsOf(client);
  const members = [supports, handleError, getChannel, GRPCStreamCreator, callArguments];
  if (!members.every((member) => typeof member === 'function')) {
    throw new Error(
      'this version of @eventstore/db-client has changed inside: see libs/event-store/src/eventstoredb',
    );
  }
}

/** Makes a call without a deadline of its own. `create` gets the arguments that every call needs. */
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
