import { byCallback, keptIndexPlans, streamOf, VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import type { Statement } from './statements.ts';

/**
 * One connection for one projection. It holds the leadership lock, so losing the connection loses the leadership. It
 * sends a whole transaction at once, so a batch costs one round trip.
 */
export interface Session {
  readonly client: pg.Client;
  /**
   * Runs the statements in one transaction and gives the rows of each. Rejects with the first error; the transaction
   * is then rolled back.
   */
  transaction(statements: readonly Statement[]): Promise<readonly pg.QueryResultRow[][]>;
  /** As `transaction`, for more statements than memory is for: each is sent when the one before it is done. `query` reads within it. */
  transactionOf(parts: AsyncIterable<readonly Statement[]>): Promise<void>;
  query<Found extends pg.QueryResultRow>(statement: Statement): Promise<Found[]>;
  close(): Promise<void>;
}

export interface SessionOptions {
  readonly connectionString: string;
  /** The name that `pg_stat_activity` shows. */
  readonly name: string;
  /** The schema of unqualified table names. */
  readonly schema?: string;
}

/**
 * When Postgres crashes, the rows and the checkpoint of a batch are lost together and replayed, so no flush is
 * needed. Plans are kept as long as `isGrown` allows. Keep-alive: when a projector's machine disappears, Postgres
 * notices within 20 s and frees the lock for the standby. Buffers of temporary tables are the session's own, and taken when it has such tables,
 * for a verification: with the 8 MB of Postgres, one of the log took a third longer.
 */
const settings = `${keptIndexPlans}; set synchronous_commit = off; set temp_buffers = '48MB';
  set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 3; set tcp_keepalives_count = 3`;

/**
 * Whether the tables may have outgrown their plans: they may have doubled after so many transactions. A plan from the
 * time when a table was empty used any index (deletes were 3/4 of the time of a replay). Planning each execution was
 * a tenth of the time of a live vault.
 */
const isGrown = (transactions: number): boolean =>
  transactions % 256 === 0 || Number.isInteger(Math.log2(transactions));

/** Rejects when Postgres cannot be reached. */
export async function openSession({ connectionString, name, schema }: SessionOptions): Promise<Session> {
  const client = new VaultClient({
    connectionString,
    application_name: name.slice(0, 63),
    pipeline: true,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  });
  // The next query reports a lost connection.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query(schema ? `${settings}; set search_path = ${schema}` : settings);
  } catch (error) {
    await end(client);
    throw error;
  }
  let transactions = 0;
  return {
    client,
    async transaction(statements) {
      transactions += 1;
      // This fails only when the connection fails. The following statements report that too.
      if (isGrown(transactions)) ask(client, 'discard plans').catch(() => undefined);
      const outcomes = await Promise.allSettled(send(client, statements));
      const results = outcomes.map((outcome) => {
        if (outcome.status === 'rejected') throw outcome.reason as Error;
        return outcome.value.rows as pg.QueryResultRow[];
      });
      return statements.length === 1 ? results : results.slice(1, -1);
    },
    transactionOf: (parts) => sendParts(client, parts),
    async query<Found extends pg.QueryResultRow>(statement: Statement) {
      return (await ask<Found>(client, statement)).rows;
    },
    close: () => end(client),
  };
}

/**
 * A single statement is a transaction by itself. Several statements leave in one write: sent one by one, their system
 * calls took a seventh of the CPU time of the whole vault.
 */
function send(client: pg.Client, statements: readonly Statement[]): Promise<pg.QueryResult>[] {
  const [first] = statements;
  if (first && statements.length === 1) return [ask(client, first)];
  const stream = streamOf(client);
  stream.cork();
  try {
    return [ask(client, 'begin'), ...statements.map((each) => ask(client, each)), ask(client, 'commit')];
  } finally {
    stream.uncork();
  }
}

async function sendParts(client: pg.Client, parts: AsyncIterable<readonly Statement[]>): Promise<void> {
  await ask(client, 'begin');
  try {
    for await (const part of parts) for (const each of part) await ask(client, each);
    await ask(client, 'commit');
  } catch (error) {
    // This fails only when the connection fails.
    await ask(client, 'rollback').catch(() => undefined);
    throw error;
  }
}

const ask = <Row extends pg.QueryResultRow>(client: pg.Client, statement: Statement | string) =>
  byCallback<pg.QueryResult<Row>>((answer) => client.query<Row>(statement as string, answer));

async function end(client: pg.Client): Promise<void> {
  await client.end().catch(() => undefined);
}
