import { byCallback, keepPlans, streamOf, VaultClient, watchLoss } from '@token-vault/postgres';
import pg from 'pg';
import { EventStoreUnavailableError } from '../port.ts';

export interface ConnectionSettings {
  readonly connection: pg.ClientConfig;
  /** Time limit of a statement before the store counts as unavailable. */
  readonly statementTimeoutMs: number;
}

/** The server cancels at the time-out; the client stops a little later, in case the network loses the answer. */
const networkGraceMs = 1_000;

export function clientConfig({ connection, statementTimeoutMs }: ConnectionSettings): StoreClientConfig {
  return {
    application_name: 'event-store',
    keepAlive: true,
    connectionTimeoutMillis: statementTimeoutMs,
    ...connection,
    statement_timeout: statementTimeoutMs,
    answerTimeoutMs: statementTimeoutMs + networkGraceMs,
  };
}

interface StoreClientConfig extends pg.ClientConfig {
  readonly answerTimeoutMs: number;
}

type Answer = (error: Error | null, result: unknown) => void;

/**
 * Ends a connection on which a query gets no answer. `query_timeout` of pg does the same, but for each query V8 then keeps parameters and
 * rows until the next full collection (ADR 13); queries that return a promise have the same effect.
 */
export class StoreClient extends VaultClient {
  readonly #answerTimeoutMs: number;

  constructor(config: StoreClientConfig) {
    super(config);
    this.#answerTimeoutMs = config.answerTimeoutMs;
  }

  // pg declares a dozen overloads; this method has one signature for all of them.
  override query(config: unknown, values?: unknown, callback?: unknown): never {
    // eslint-disable-next-line no-restricted-syntax -- Only `never` is a subtype of the results of all overloads. Callers see pg's types.
    return this.#query(config, values, callback) as never;
  }

  #query(config: unknown, values: unknown, callback: unknown): unknown {
    const answer = [values, callback].find((each): each is Answer => typeof each === 'function');
    if (!answer) return byCallback((done) => this.#query(config, values, done));
    const parameters = values === answer ? undefined : values;
    const timer = setTimeout(() => this.#giveUp(), this.#answerTimeoutMs);
    const answerInTime: Answer = (error, result) => {
      clearTimeout(timer);
      answer(error, result);
    };
    return super.query(config as string, parameters as unknown[], answerInTime);
  }

  /** Fails all unanswered queries. */
  #giveUp(): void {
    streamOf(this).destroy(new Error('Postgres did not answer in time'));
  }
}

/** A connected client. `onLost` is called once when the connection breaks, also while it is idle. */
export async function openClient(
  settings: ConnectionSettings,
  onLost: (error: Error) => void,
): Promise<pg.Client> {
  const client = new StoreClient(clientConfig(settings));
  watchLoss(client, onLost);
  try {
    await client.connect();
    await keepPlans(client);
  } catch (error) {
    discardClient(client);
    throw asUnavailable(error);
  }
  return client;
}

/** Drops a client whose state is unknown, without waiting for a server that may not answer. */
export function discardClient(client: pg.Client): void {
  client.end().catch(() => undefined);
}

/** One connection, opened at its first use and again after it was lost. */
export interface LastingConnection {
  client(): Promise<pg.Client>;
  discard(client: pg.Client): void;
  close(): Promise<void>;
}

export function createLastingConnection(settings: ConnectionSettings): LastingConnection {
  let opening: Promise<pg.Client> | undefined;

  function open(): Promise<pg.Client> {
    const forget = () => {
      if (opening === attempt) opening = undefined;
    };
    const attempt = openClient(settings, forget);
    attempt.catch(forget);
    return attempt;
  }

  return {
    client: () => (opening ??= open()),
    discard(client) {
      opening = undefined;
      discardClient(client);
    },
    async close() {
      const client = await opening?.catch(() => undefined);
      await client?.end();
    },
  };
}

/**
 * Keeps the text that Postgres sent. Type parsers that other code sets globally have no effect: a position must never become a number.
 */
export const textValues: pg.CustomTypesConfig = { getTypeParser: () => (value: string) => value };

/**
 * SQLSTATE classes after which the same call may succeed later: connection, authorisation to connect, transaction rollback, resources,
 * operator intervention (timeout, shutdown), system; a standby that has not been promoted, a database that is missing or closed to
 * connections, a lock not granted.
 */
const unavailableStates = /^(08|28|40|53|57|58|25006|3D000|55000|55P03)/;

/** The error that callers may retry on, or the error itself when it is a defect (SQL, schema). */
export function asUnavailable(error: unknown): Error {
  if (error instanceof EventStoreUnavailableError) return error;
  if (error instanceof pg.DatabaseError && !unavailableStates.test(error.code ?? '')) return error;
  const reason =
    error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : 'unknown';
  return new EventStoreUnavailableError(`the event store is unavailable: ${reason}`, { cause: error });
}
