import { promisify } from 'node:util';
import {
  Server,
  status,
  type handleUnaryCall,
  type Metadata,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import featuresPb from '@eventstore/db-client/generated/serverfeatures_pb.js';
import featuresGrpc from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import type shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { connectionStringOf, credentialsFor, refusalOf, type Accounts } from './accounts.ts';
import { Appends } from './appends.ts';
import { noFaults, type Faults } from './faults.ts';
import { keepIn } from './files.ts';
import { NetworkLink } from './link.ts';
import { EventLog } from './log.ts';
import { writeFirstEvents, writeForeignEvents, writeSystemEvents } from './own-events.ts';
import { Reads } from './reads.ts';
import { rpcError } from './wire.ts';

export interface EventStoreDbDouble {
  /** `esdb://127.0.0.1:…`. It stays the same while the double lives. */
  readonly connectionString: string;
  /** With TLS, for an account as `name:password`. */
  connectionStringFor(account: string): string;
  readonly port: number;
  readonly log: EventLog;
  /** The faults, which may be changed at any time. */
  readonly faults: Faults;
  /** The calls so far by method, with the client addresses of their connections. */
  readonly calls: ReadonlyMap<string, readonly string[]>;
  /** The filter and the limit of each read and subscription of the whole log so far, as text, with their number. */
  readonly logReads: ReadonlyMap<string, number>;
  /** The highest number of calls of a method that were open at once. */
  peak(method: string): number;
  /** The number of open reads and subscriptions. */
  openReads(): number;
  /** Breaks the oldest open BatchAppend streams; all by default. */
  killBatch(count?: number): void;
  /** Ends every subscription: with UNAVAILABLE, or without an error. */
  dropSubscriptions(how?: 'error' | 'end'): void;
  /** Breaks every connection. New ones succeed. Appends that have arrived are still stored. */
  cutConnections(): void;
  /** The network loses all packets, and connections stay open. */
  freeze(): void;
  thaw(): void;
  /** Closes the port. The log is kept for `up`. */
  down(): Promise<void>;
  up(): Promise<void>;
  /** Events of the server itself, which a real log has between those of clients. */
  writeSystemEvents(count: number): void;
  /** Events of another application on the same server. */
  writeForeignEvents(count: number): void;
  close(): Promise<void>;
}

export interface DoubleOptions {
  /** Any free port by default. */
  readonly port?: number;
  readonly maxAppendBytes?: number;
  /** The log is kept there, also after the end of the double. In memory by default. */
  readonly directory?: string | undefined;
  readonly faults?: Partial<Faults>;
  /** A server with accounts speaks TLS and requires a name and a password. */
  readonly accounts?: Accounts;
}

/**
 * An EventStoreDB that speaks the real protocol over real gRPC, from the client package's own service
 * definitions. It lacks persistent subscriptions, ACLs, projections, links and scavenge.
 */
export async function startEventStoreDbDouble(options: DoubleOptions = {}): Promise<EventStoreDbDouble> {
  const { accounts, directory } = options;
  const log = new EventLog(options.maxAppendBytes);
  if (directory !== undefined) keepIn(directory, log);
  if (log.events.length === 0) writeFirstEvents(log, accounts !== undefined);
  const faults: Faults = { ...noFaults(), ...options.faults };
  const appends = new Appends(log, faults);
  const reads = new Reads(log, faults);
  const calls = new Map<string, string[]>();
  const services = createServices(faults, appends, reads);
  const { server, open, peaks } = createServer(services, calls, accounts);
  const internalPort = await promisify(server.bindAsync.bind(server))(
    '127.0.0.1:0',
    credentialsFor(accounts),
  );
  const link = new NetworkLink(internalPort);
  await link.up(options.port);
  return {
    connectionString: connectionStringOf(link.port, undefined),
    connectionStringFor: (account) => connectionStringOf(link.port, account),
    port: link.port,
    log,
    faults,
    calls,
    logReads: reads.ofLog,
    peak: (method) => peaks.get(method) ?? 0,
    openReads: () => open.get('read')?.size ?? 0,
    killBatch: (count) => appends.killBatch(count),
    dropSubscriptions: (how = 'error') => reads.drop(how),
    cutConnections: () => link.cut(),
    freeze: () => link.freeze(),
    thaw: () => link.thaw(),
    down: () => link.down(),
    up: () => link.up(),
    writeSystemEvents: (count) => writeSystemEvents(log, count),
    writeForeignEvents: (count) => writeForeignEvents(log, count),
    async close() {
      await link.down();
      server.forceShutdown();
    },
  };
}

type Handler = (call: never, answer: never) => unknown;

interface Services {
  readonly features: Record<string, Handler>;
  readonly streams: Record<string, Handler>;
}

function createServices(faults: Faults, appends: Appends, reads: Reads): Services {
  const getSupportedMethods: handleUnaryCall<shared.Empty, featuresPb.SupportedMethods> = (_call, answer) => {
    if (faults.failFeatures) return answer(rpcError(status.INTERNAL, 'told to fail'));
    answer(null, supportedMethods(faults.batchAppend));
  };
  const deleteStream: handleUnaryCall<streams.DeleteReq, streams.DeleteResp> = (call, answer) => {
    answerRemoval(answer, () => {
      const position = new streams.DeleteResp.Position();
      setPosition(position, appends.remove(call, false).position);
      const response = new streams.DeleteResp();
      response.setPosition(position);
      return response;
    });
  };
  const tombstone: handleUnaryCall<streams.TombstoneReq, streams.TombstoneResp> = (call, answer) => {
    answerRemoval(answer, () => {
      const position = new streams.TombstoneResp.Position();
      setPosition(position, appends.remove(call, true).position);
      const response = new streams.TombstoneResp();
      response.setPosition(position);
      return response;
    });
  };
  return {
    features: { getSupportedMethods },
    streams: {
      append: appends.append.bind(appends),
      batchAppend: appends.batchAppend.bind(appends),
      read: reads.read.bind(reads),
      delete: deleteStream,
      tombstone,
    },
  };
}

function answerRemoval<Response>(
  answer: (error: Error | null, response?: Response) => void,
  remove: () => Response,
): void {
  try {
    answer(null, remove());
  } catch (error) {
    answer(error as Error);
  }
}

interface Observed {
  readonly metadata: Metadata;
  getPeer(): string;
  emit(event: 'error', error: Error): unknown;
  on(event: string, listener: () => void): unknown;
}

/** Registers the services, and counts calls and open reads. */
function createServer(services: Services, calls: Map<string, string[]>, accounts: Accounts | undefined) {
  const server = new Server({
    'grpc.max_receive_message_length': 17 * 1024 * 1024,
    // Kestrel's default, which the server never changes.
    'grpc.max_concurrent_streams': 100,
  });
  const open = new Map<string, Set<Observed>>();
  const peaks = new Map<string, number>();
  const note = (call: Observed, method: string) => {
    const peers = calls.get(method) ?? [];
    peers.push(call.getPeer());
    calls.set(method, peers);
    const others = open.get(method) ?? new Set();
    open.set(method, others.add(call));
    peaks.set(method, Math.max(peaks.get(method) ?? 0, others.size));
    for (const end of ['close', 'cancelled', 'finish', 'end']) call.on(end, () => others.delete(call));
  };
  const observe = (handlers: Record<string, Handler>) =>
    Object.fromEntries(
      Object.entries(handlers).map(([method, handler]) => [
        method,
        (call: Observed, answer: unknown) => {
          note(call, method);
          const refusal = refusalOf(accounts, call, method);
          if (!refusal) return handler(call as never, answer as never);
          if (typeof answer !== 'function') return call.emit('error', refusal);
          return (answer as (error: Error) => void)(refusal);
        },
      ]),
    ) as unknown as UntypedServiceImplementation;
  server.addService(featuresGrpc.ServerFeaturesService, observe(services.features));
  server.addService(streamsGrpc.StreamsService, observe(services.streams));
  return { server, open, peaks };
}

function supportedMethods(hasBatchAppend: boolean): featuresPb.SupportedMethods {
  const supported = new featuresPb.SupportedMethods();
  supported.setEventStoreServerVersion('24.10.0');
  const batchAppend: [string, string[]][] = hasBatchAppend ? [['batchappend', ['deadline_duration']]] : [];
  const methods: [string, string[]][] = [
    ['append', []],
    ['read', ['position', 'events']],
    ['delete', []],
    ['tombstone', []],
    ...batchAppend,
  ];
  for (const [name, features] of methods) {
    const method = new featuresPb.SupportedMethod();
    method.setServiceName('event_store.client.streams.streams');
    method.setMethodName(name);
    method.setFeaturesList(features);
    supported.addMethods(method);
  }
  return supported;
}

function setPosition(
  position: { setCommitPosition(value: string): unknown; setPreparePosition(value: string): unknown },
  value: number,
): void {
  position.setCommitPosition(String(value));
  position.setPreparePosition(String(value));
}
