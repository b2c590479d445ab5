import {
  parsePosition,
  startPosition,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/service-kit';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { Completion } from './completion.ts';
import type { InvocationFeed } from './port.ts';

export interface DirectFeedOptions {
  readonly store: EventStore;
  /** Of a database with `invocationFeedMigrations`. */
  readonly pool: Pool;
  readonly logger: Logger;
  /** Invocations handed over and not handled yet, at most. */
  readonly maxInHand?: number;
}

const name = 'runner';
const saveMs = 1_000;
const retryMs = 500;

/** The feed of a vault in one process: a subscription to the log, with a checkpoint behind everything that is handled. */
export function createDirectFeed({
  store,
  pool,
  logger,
  maxInHand = 2_000,
}: DirectFeedOptions): InvocationFeed {
  async function read(): Promise<Position> {
    const { rows } = await pool.query<{ position: string }>(
      'select position::text as position from invocations.checkpoint where name = $1',
      [name],
    );
    const [row] = rows;
    return row ? parsePosition(row.position) : startPosition;
  }

  /** Replicas share it: the furthest may be ahead of another's work in hand, which that one's claims protect. */
  async function save(position: Position): Promise<void> {
    await pool.query(
      `insert into invocations.checkpoint as c (name, position) values ($1, $2::numeric)
       on conflict (name) do update set position = greatest(c.position, excluded.position)`,
      [name, position],
    );
  }

  async function handleUntilDone(
    event: RecordedEvent,
    handle: (event: RecordedEvent) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    for (;;) {
      try {
        await handle(event);
        return true;
      } catch (error) {
        logger.warn(
          { trace_id: event.metadata.trace_id, ...errorFields(error) },
          'an invocation is tried again',
        );
      }
      await delay(retryMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return false;
    }
  }

  async function follow(handle: (event: RecordedEvent) => Promise<void>, signal: AbortSignal): Promise<void> {
    const start = await read();
    const completion = new Completion(start);
    const inHand = new Set<Promise<void>>();
    let saved = start;
    const saveProgress = async (): Promise<void> => {
      if (completion.reached === saved) return;
      saved = completion.reached;
      await save(saved);
    };
    const timer = setInterval(() => {
      saveProgress().catch((error: unknown) =>
        logger.warn(errorFields(error), 'the feed kept no checkpoint'),
      );
    }, saveMs);
    try {
      for await (const { events, position } of store.subscribe(start, signal)) {
        for (const event of events) {
          if (event.type !== 'ReactorInvoked') continue;
          const done = completion.begin(event.position);
          const work = handleUntilDone(event, handle, signal).then((isDone) => {
            if (isDone) done();
            inHand.delete(work);
          });
          inHand.add(work);
          if (inHand.size >= maxInHand) await Promise.race(inHand);
        }
        completion.pass(position);
      }
    } finally {
      clearInterval(timer);
      await Promise.all(inHand);
      await saveProgress().catch(() => undefined);
    }
  }

  return {
    async run(handle, signal) {
      while (!signal.aborted) {
        try {
          await follow(handle, signal);
        } catch (error) {
          if (signal.aborted) return;
          logger.warn(errorFields(error), 'the feed of invocations is taken up again');
          await delay(retryMs, undefined, { signal }).catch(() => undefined);
        }
      }
    },
  };
}
