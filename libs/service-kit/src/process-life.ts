import { lowerBackgroundThreads } from './background-threads.ts';
import { leaveMemoryOutOfCoreDumps } from './core-dumps.ts';
import { errorFields, type Logger } from './logger.ts';

/** What a process consists of once it has begun. */
export interface RunningParts {
  /** Finishes what is under way, then closes everything, last opened first. */
  close(): Promise<void>;
}

export interface ProcessLife<Settings> {
  readonly service: string;
  /** From the environment. @throws Error of one line that names the variable, with a code of `explained` */
  readonly readSettings: (environment: NodeJS.ProcessEnv) => Settings;
  /** `signal` aborts when the process was told to end before it had begun. Rejects then, or gives what is to be closed. */
  readonly start: (settings: Settings, logger: Logger, signal: AbortSignal) => Promise<RunningParts>;
  readonly createLogger: (settings: Settings) => Logger;
  /** Codes of errors whose message is one line that tells the operator what to do. */
  readonly explained: ReadonlySet<string>;
  /** Longest a graceful stop may take; 25 s by default, below the 30 s that Kubernetes gives. */
  readonly stopWithinMs?: number;
}

function complaintOf(error: unknown, explained: ReadonlySet<string>): string {
  const code: unknown = (error as { code?: unknown } | null)?.code;
  if (error instanceof Error && typeof code === 'string' && explained.has(code)) return error.message;
  // The message of any other error may quote data.
  const { error_name: name, error_code: kind, stack } = errorFields(error);
  return ['could not start', [name, kind].filter(Boolean).join(' '), stack].filter(Boolean).join('\n');
}

/**
 * A process from its beginning to its end: settings, start, and a graceful stop at SIGTERM or SIGINT (a second signal changes
 * nothing). Ends with status 0 after a stop, 1 when it could not
 * start or not stop in time.
 */
export async function runProcess<Settings>(life: ProcessLife<Settings>): Promise<void> {
  leaveMemoryOutOfCoreDumps();
  lowerBackgroundThreads();
  const { service, explained, stopWithinMs = 25_000 } = life;
  const abort = new AbortController();
  try {
    const settings = life.readSettings(process.env);
    const logger = life.createLogger(settings);
    const told = new Promise<void>((resolve) => {
      const tell = () => {
        abort.abort();
        resolve();
      };
      process.on('SIGINT', tell).on('SIGTERM', tell);
    });
    // Whoever started it with a channel is gone, and with it maybe the database: as after a crash.
    process.on('disconnect', () => process.exit(1));
    const running = await life.start(settings, logger, abort.signal);
    logger.info({ pid: process.pid }, 'started');
    process.send?.({ kind: 'started' });
    await told;
    logger.info({ pid: process.pid }, 'stopping');
    setTimeout(() => {
      logger.error({}, 'not stopped in time: what was under way is cut off');
      process.exit(1);
    }, stopWithinMs).unref();
    await running.close();
    process.exit(0);
  } catch (error) {
    if (abort.signal.aborted) process.exit(0);
    process.stderr.write(`${service}: ${complaintOf(error, explained)}\n`);
    process.exit(1);
  }
}
