import { isIP } from 'node:net';
import { EventStoreDBClient } from '@eventstore/db-client';

export interface ConnectionSettings {
  /** `esdb://…` or `esdb+discover://…` of an EventStoreDB 24.10 or newer, or a KurrentDB. */
  readonly connectionString: string;
  /** Longest a call may take, and an append may wait for its turn, before the store counts as unavailable. */
  readonly deadlineMs: number;
}

/** Members of the client that this adapter replaces. They are not in its types, so `openClient` looks whether they are there. */
interface ClientInternals {
  supports: () => Promise<boolean>;
  handleError: (...details: unknown[]) => Promise<void>;
  getChannel: () => Promise<Channel>;
  /** Used by `readFiltered`. */
  GRPCStreamCreator: unknown;
  callArguments: unknown;
}

interface Channel {
  close(): void;
  readonly internalChannel?: { readonly credentials?: ChannelCredentials };
}

/** Of grpc-js, which has no setting for what `nameNoAddress` changes. */
interface ChannelCredentials {
  _createSecureConnector?: (...details: unknown[]) => {
    readonly connectionOptions?: { readonly host?: string; servername?: string };
  };
}

const defaultKeepAliveTimeoutMs = 10_000;
let connections = 0;

/** A client with a connection of its own. Connects when first used. */
export class Connection {
  readonly client: EventStoreDBClient;
  #channel: Promise<Channel> | undefined;
  #uses = 0;
  #isRetired = false;

  constructor(connectionString: string) {
    this.client = EventStoreDBClient.connectionString(withOwnConnection(connectionString));
    const internals = this.client as unknown as ClientInternals;
    const { supports, handleError, getChannel, GRPCStreamCreator, callArguments } = internals;
    const members = [supports, handleError, getChannel, GRPCStreamCreator, callArguments];
    if (!members.every((member) => typeof member === 'function')) {
      throw new Error(
        'this version of @eventstore/db-client has changed inside: see libs/event-store/src/eventstoredb',
      );
    }
    // Plain Append, always. The client's BatchAppend has no deadline, and one promise bank for the whole process: the
    // broken stream of one client rejects the appends of the others, and a late answer ends the process.
    // Nor is the server asked for its features: a failure of that question would stay with the client for good.
    internals.supports = async () => false;
    // Nobody waits for it: a rejection (a cluster that cannot be discovered) would end the process.
    internals.handleError = (...details) => handleError(...details).catch(() => undefined);
    internals.getChannel = () => {
      this.#channel = getChannel();
      return this.#channel.then((channel) => {
        nameNoAddress(channel.internalChannel?.credentials);
        return channel;
      });
    };
  }

  /** Runs one call. A retired connection is closed when the last of its calls has ended. */
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
    // Cancels what is open at once. Its end is not waited for: a cancelled call that nobody drains has none.
    void this.client.dispose();
    const channel = await this.#channel?.catch(() => undefined);
    channel?.close();
  }
}

/**
 * TLS sends the name of the server that is asked for, which must not be an IP address (RFC 6066, 3): Node warns of it. The certificate is
 * checked against the address all the same, as `host`.
 */
function nameNoAddress(credentials: ChannelCredentials | undefined): void {
  const create = credentials?._createSecureConnector;
  if (!create || Object.hasOwn(credentials, '_createSecureConnector')) return;
  credentials._createSecureConnector = (...details) => {
    const connector = create.apply(credentials, details);
    const { connectionOptions } = connector;
    if (connectionOptions?.host && isIP(connectionOptions.host)) connectionOptions.servername = '';
    return connector;
  };
}

/** One connection at a time, replaced by the next call after one has failed on it. */
export class LastingConnection {
  readonly #connectionString: string;
  #connection: Connection | undefined;

  constructor(connectionString: string) {
    this.#connectionString = connectionString;
  }

  get(): Connection {
    return (this.#connection ??= new Connection(this.#connectionString));
  }

  /** Calls under way on it end first. Calls that failed together replace it once. */
  discard(connection: Connection): void {
    if (connection === this.#connection) this.#connection = undefined;
    void connection.retire();
  }

  async close(): Promise<void> {
    await this.#connection?.retire();
  }
}

/**
 * grpc-js lets all channels of a process with equal settings share one connection, and with it the server's limit of
 * 100 calls and the flow control: a subscriber that reads slowly would hold everybody. A keep-alive time-out that is
 * some milliseconds longer than that of the others makes the settings unequal.
 */
function withOwnConnection(connectionString: string): string {
  const given = /[?&]keepAliveTimeout=(\d+)/i.exec(connectionString);
  const timeoutMs = Number(given?.[1] ?? defaultKeepAliveTimeoutMs) + (connections++ % 5_000);
  const setting = `keepAliveTimeout=${timeoutMs}`;
  if (given) return connectionString.replace(given[0], `${given[0].charAt(0)}${setting}`);
  return `${connectionString}${connectionString.includes('?') ? '&' : '?'}${setting}`;
}

/** @throws TypeError for a connection string that this adapter cannot keep its promises with. */
export function checkConnectionString(connectionString: string): void {
  if (!/^esdb(\+discover)?:\/\//.test(connectionString)) {
    throw new TypeError('an EventStoreDB connection string begins with esdb:// or esdb+discover://');
  }
  // Without exceptions, the client gives a wrong revision for a conflict.
  if (/[?&]throwOnAppendFailure=false/i.test(connectionString)) {
    throw new TypeError('throwOnAppendFailure=false is not supported');
  }
}
