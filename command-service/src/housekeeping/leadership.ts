import { errorFields, type Logger } from '@token-vault/observability';
import { lockKeys, tryHold, VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import { backOffMs, pause } from './pause.ts';

export interface LeadershipOptions {
  readonly connectionString: string;
  /** In one database only one process at a time leads under a name. */
  readonly name: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called when this process begins to lead, and when it no longer does. */
  readonly onLeading?: LeadingObserver | undefined;
}

export type LeadingObserver = (name: string, isLeading: boolean) => void;

/** A standby polls: a session that waits inside Postgres would hold back vacuum as long as the leader lives. */
const pollMs = 1_000;
/** A query over the connection finds out that the connection was lost silently. */
const heartbeatMs = 5_000;

/**
 * Runs `lead` while this process holds the lock, again and again until `signal` aborts. The lock belongs to one
 * connection. When the connection is lost by a crash, a cut or a failover, or because this process stood still for 3 s,
 * Postgres gives the lock to the next process, and the signal of `lead` aborts here. For a moment two processes may believe that they lead: `lead` must
 * be safe against that.
 */
export async function leadWheneverPossible(
  options: LeadershipOptions,
  lead: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { logger, signal, name, onLeading } = options;
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    const term = new AbortController();
    let client: pg.Client | undefined;
    let isLeading = false;
    try {
      client = await connect(options, term);
      const either = AbortSignal.any([signal, term.signal]);
      if (await acquire(client, name, either)) {
        attempt = 0;
        logger.info({ task: name }, 'leads a task');
        isLeading = true;
        onLeading?.(name, true);
        await Promise.all([lead(either), watch(client, term, either)]);
      }
    } catch (error) {
      if (!signal.aborted)
        logger.warn({ task: name, ...errorFields(error) }, 'the leader of a task has lost its connection');
    } finally {
      term.abort();
      if (isLeading) onLeading?.(name, false);
      await client?.end().catch(() => undefined);
    }
    await pause(backOffMs(attempt), signal);
  }
}

async function connect(
  { connectionString, name }: LeadershipOptions,
  term: AbortController,
): Promise<pg.Client> {
  const client = new VaultClient({
    connectionString,
    application_name: `vault ${name}`.slice(0, 63),
    connectionTimeoutMillis: 10_000,
    query_timeout: 10_000,
    keepAlive: true,
  });
  client.on('error', () => term.abort());
  client.on('end', () => term.abort());
  await client.connect();
  // When this machine disappears, Postgres notices within 20 s and frees the lock.
  await client.query(
    'set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 3; set tcp_keepalives_count = 3',
  );
  return client;
}

/** False when `signal` aborted first. */
async function acquire(client: pg.Client, name: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    if (await tryHold(client, lockKeys.task(name))) return true;
    await pause(pollMs, signal);
  }
  return false;
}

/** Ends the leadership when the connection that holds the lock does not answer. */
async function watch(client: pg.Client, term: AbortController, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted) {
      await pause(heartbeatMs, signal);
      if (!signal.aborted) await client.query('select 1');
    }
  } finally {
    term.abort();
  }
}
