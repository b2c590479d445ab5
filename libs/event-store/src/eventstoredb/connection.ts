import { isIP } from 'node:net';
import { EventStoreDBClient } from '@eventstore/db-client';
import { AppendStream } from './append-stream.ts';
import { internalsOf, type Channel } from './client-internals.ts';

export interface ConnectionSettings {
  /** `esdb://…` or `esdb+discover://…` of an EventStoreDB 24.10 or newer, or a KurrentDB. */
  readonly connectionString: string;
  /** Time limit of a call, and of the wait of an append for its turn, before the store counts as unavailable. */
  readonly deadlineMs: number;
}

/** A type of grpc-js. `omitAddressFromServerName` replaces its method, because grpc-js has no setting for it. */
interface ChannelCredentials {
  _createSecureConnector?: (...details: unknown[]) => {
    readonly connectionOptions?: { readonly host?: string; servername?: string };
  };
}

const defaultKeepAliveTimeoutMs = 10_000;
let connections = 0;

/** A client with a connection of its own. Connects at its first use. */
export class Connection {
  readonly client: EventStoreDBClient;
  /** Opened by its first append. */
  readonly appends: AppendStream;
  #channel: Promise<Channel> | undefined;
  #uses = 0;
  #isRetired = false;

  constructor(connectionString: string) {
    this.client = EventStoreDBClient.connectionString(withOwnConnection(connectionString));
    const internals = internalsOf(this.client);
    const { handleError, getChannel } = internals;
    // `appendToStream` is always a plain Append; `AppendStream` has the reasons. The server is not asked for its features either: a failure
    // of that call would stay with the client for ever.
    internals.supports = async () => false;
    this.appends = new AppendStream(this.client);
    // No caller awaits this promise: a rejection (a cluster that cannot be discovered) would end the process.
    internals.handleError = (...details) => handleError(...details).catch(() => undefined);
    internals.getChannel = () => {
      this.#channel = getChannel();
      return this.#channel.then((channel) => {
        omitAddressFromServerName(channel.internalChannel?.credentials);
        return channel;
      });
    };
  }

  /** Runs one call. A retired connection is closed when its last call has ended. */
  async use<Result>(call: (client: EventStoreDBClient) => Promise<Result>): Promise<Result> {
    this.#uses++;
    try {
      return await call(this.client);
    } finally {
      this.#uses--;
      if (this.#isRetired && this.#uses === 0) await this.#close();
    }
  }

  async retire(): Promise<void> {
    if (this.#isRetired) return;
    this.#isRetired = true;
    if (this.#uses === 0) await this.#close();
  }

  async #close(): Promise<void> {
    // Cancels open calls at once. The result is not awaited: a cancelled call that is not drained never ends.
    void this.client.dispose();
    const channel = await this.#channel?.catch(() => undefined);
    channel?.close();
  }
}

/**
 * TLS sends the name of the requested server, which must not be an IP address (RFC 6066, 3): Node warns of an address. The certificate is
 * still checked against the address, as `host`.
 */
function omitAddressFromServerName(credentials: ChannelCredentials | undefined): void {
  const create = credentials?._createSecureConnector;
  if (!create || Object.hasOwn(credentials, '_createSecureConnector')) return;
  credentials._createSecureConnector = (...details) => {
    const connector = create.apply(credentials, details);
    const { connectionOptions } = connector;
    if (connectionOptions?.host && isIP(connectionOptions.host)) connectionOptions.servername = '';
    return connector;
  };
}

/** One connection at a time. After a call has failed on it, the next call opens a new one. */
export class LastingConnection {
  readonly #connectionString: string;
  #connection: Connection | undefined;

  constructor(connectionString: string) {
    this.#connectionString = connectionString;
  }

  get(): Connection {
    return (this.#connection ??= new Connection(this.#connectionString));
  }

  /** The connection is closed after the calls under way on it. When several calls fail, only the first one replaces the connection. */
  discard(connection: Connection): void {
    if (connection === this.#connection) this.#connection = undefined;
    void connection.retire();
  }

  async close(): Promise<void> {
    await this.#connection?.retire();
  }
}

/**
 * In grpc-js all channels of a process with equal settings share one connection, and so also the server's limit of 100 calls and the flow
 * control: one slow subscriber would block all others. A keep-alive time-out that is some milliseconds longer makes the settings different.
 */
function withOwnConnection(connectionString: string): string {
  const given = /[?&]keepAliveTimeout=(\d+)/i.exec(connectionString);
  const timeoutMs = Number(given?.[1] ?? defaultKeepAliveTimeoutMs) + (connections++ % 5_000);
  const setting = `keepAliveTimeout=${timeoutMs}`;
  if (given) return connectionString.replace(given[0], `${given[0].charAt(0)}${setting}`);
  return `${connectionString}${connectionString.includes('?') ? '&' : '?'}${setting}`;
}

/** @throws TypeError for a connection string with which this adapter cannot fulfil its contract. */
export function checkConnectionString(connectionString: string): void {
  if (!/^esdb(\+discover)?:\/\//.test(connectionString)) {
    throw new TypeError('an EventStoreDB connection string begins with esdb:// or esdb+discover://');
  }
  // Without exceptions, the client reports a wrong revision for a conflict.
  if (/[?&]throwOnAppendFailure=false/i.test(connectionString)) {
    throw new TypeError('throwOnAppendFailure=false is not supported');
  }
}
