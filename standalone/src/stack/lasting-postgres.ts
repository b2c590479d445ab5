import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
} from '@token-vault/embedded-postgres';

/**
 * The embedded Postgres of a stack. It is started again whenever it ends by itself, and the processes wait for it
 * meanwhile.
 */
export interface LastingPostgres {
  /** The same for every start. */
  readonly url: string;
  /** Undefined while Postgres does not run. */
  readonly pid: number | undefined;
  stop(): Promise<void>;
  /** Resolves when Postgres could not be started again. */
  readonly lost: Promise<void>;
}

interface LastingPostgresOptions extends Omit<EmbeddedPostgresOptions, 'signal'> {
  readonly logger: Logger;
  /** Called at each end and each start. */
  readonly onChange: () => void;
}

const retryMs = 1_000;
const attempts = 10;

/** @throws StartError when the first start fails */
export async function startLastingPostgres(options: LastingPostgresOptions): Promise<LastingPostgres> {
  const { logger, onChange } = options;
  const stopping = new AbortController();
  const lost = Promise.withResolvers<void>();
  let current: EmbeddedPostgres | undefined;
  let restarting: Promise<void> | undefined;

  async function start(): Promise<EmbeddedPostgres> {
    const started = await startEmbeddedPostgres({ ...options, signal: stopping.signal });
    current = started;
    started.onExit(() => {
      current = undefined;
      onChange();
      logger.error({ component: 'postgres' }, 'Postgres has ended unexpectedly: it is started again');
      restarting = restart();
    });
    onChange();
    return started;
  }

  async function restart(): Promise<void> {
    for (let attempt = 1; !stopping.signal.aborted; attempt += 1) {
      try {
        await start();
        return;
      } catch (error) {
        logger.error({ attempt, ...errorFields(error) }, 'Postgres does not start');
        if (attempt === attempts) return lost.resolve();
        await delay(retryMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  }

  const { url } = await start();
  return {
    url,
    get pid() {
      return current?.pid;
    },
    async stop() {
      stopping.abort();
      await restarting;
      await current?.stop();
    },
    lost: lost.promise,
  };
}
