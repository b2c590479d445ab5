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

type Handle = (event: RecordedEvent) => Promise<void>;

/** The feed of a vault in one process: a subscription to the log, with a checkpoint behind everything that is handled. */
export class DirectFeed implements InvocationFeed {
  readonly #store: EventStore;
  readonly #pool: Pool;
  readonly #logger: Logger;
  readonly #maxInHand: number;

  constructor({ store, pool, logger, maxInHand = 2_000 }: DirectFeedOptions) {
    this.#store = store;
    this.#pool = pool;
    this.#logger = logger;
    this.#maxInHand = maxInHand;
  }

  async run(handle: Handle, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#follow(handle, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#logger.warn(errorFields(error), 'the feed of invocations is taken up again');
        await delay(retryMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  async #follow(handle: Handle, signal: AbortSignal): Promise<void> {
    const start = await this.#read();
    const completion = new Completion(start);
    const inHand = new Set<Promise<void>>();
    const saver = this.#saveRegularly(completion);
    const take = (event: RecordedEvent): void => {
      const done = completion.begin(event.position);
      const work = this.#handleUntilDone(event, handle, signal).then((isDone) => {
        if (isDone) done();
        inHand.delete(work);
      });
      inHand.add(work);
    };
    try {
      for await (const { events, position } of this.#store.subscribe(start, signal)) {
        for (const event of events) {
          if (event.type === 'ReactorInvoked') take(event);
          if (inHand.size >= this.#maxInHand) await Promise.race(inHand);
        }
        completion.pass(position);
      }
    } finally {
      await Promise.all(inHand);
      await saver.close();
    }
  }

  /** False when `signal` aborted first: then it is brought again after the next start. */
  async #handleUntilDone(event: RecordedEvent, handle: Handle, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      try {
        await handle(event);
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        const { trace_id } = event.metadata;
        this.#logger.warn({ trace_id, ...errorFields(error) }, 'an invocation is tried again');
      }
      await delay(retryMs, undefined, { signal }).catch(() => undefined);
    }
  }

  #saveRegularly(completion: Completion): { close(): Promise<void> } {
    let saved = completion.reached;
    const save = async (): Promise<void> => {
      const { reached } = completion;
      if (reached === saved) return;
      saved = reached;
      // What is not saved is brought again, and found to be claimed.
      await this.#save(reached).catch((error: unknown) =>
        this.#logger.warn(errorFields(error), 'the feed of invocations kept no checkpoint'),
      );
    };
    const timer = setInterval(() => void save(), saveMs);
    return {
      close: () => {
        clearInterval(timer);
        return save();
      },
    };
  }

  async #read(): Promise<Position> {
    const { rows } = await this.#pool.query<{ position: string }>(
      'select position::text as position from invocations.checkpoint where name = $1',
      [name],
    );
    const [row] = rows;
    return row ? parsePosition(row.position) : startPosition;
  }

  /** Never back: a replica that was slow has done its work too. */
  async #save(position: Position): Promise<void> {
    await this.#pool.query(
      `insert into invocations.checkpoint as c (name, position) values ($1, $2::numeric)
       on conflict (name) do update set position = greatest(c.position, excluded.position)`,
      [name, position],
    );
  }
}
