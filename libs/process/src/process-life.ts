import { lowerBackgroundThreads } from './background-threads.ts';
import { leaveMemoryOutOfCoreDumps } from './core-dumps.ts';
import { closeInheritedDescriptors } from './inherited-descriptors.ts';
import { tellStarter } from './to-starter.ts';
import { errorFields, type Logger } from '@token-vault/observability';

/** The parts of a started process. */
export interface RunningParts {
  /** Finishes the work under way, then closes all parts, the last opened first. */
  close(): Promise<void>;
}

export interface ProcessLife<Settings> {
  readonly service: string;
  /** Reads the settings from the environment. @throws Error with a one-line message that names the variable, and a code of `explained` */
  readonly readSettings: (environment: NodeJS.ProcessEnv) => Settings;
  /** `signal` aborts when the process was told to stop during the start. Then `start` rejects, or returns the parts to close. */
  readonly start: (settings: Settings, logger: Logger, signal: AbortSignal) => Promise<RunningParts>;
  readonly createLogger: (settings: Settings) => Logger;
  /** Codes of errors whose message is one line that tells the operator what to do. */
  readonly explained: ReadonlySet<string>;
  /** Time limit of a stop, also during the start; 25 s by default, below the 30 s of Kubernetes. */
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
 * Runs a process from start to end: settings, start, and a graceful stop at SIGTERM or SIGINT (a second signal has no effect). The exit
 * status is 0 after a stop, and 1 when the process could not start, or not stop in time.
 */
export async function runProcess<Settings>(life: ProcessLife<Settings>): Promise<void> {
  closeInheritedDescriptors();
  leaveMemoryOutOfCoreDumps();
  lowerBackgroundThreads();
  const { service, explained, stopWithinMs = 25_000 } = life;
  const abort = new AbortController();
  try {
    const settings = life.readSettings(process.env);
    const logger = life.createLogger(settings);
    const told = new Promise<void>((resolve) => {
      const tell = () => {
        if (abort.signal.aborted) return;
        abort.abort();
        setTimeout(() => {
          logger.error({}, 'not stopped in time: running requests are cut off');
          process.exit(1);
        }, stopWithinMs).unref();
        resolve();
      };
      process.on('SIGINT', tell).on('SIGTERM', tell);
    });
    // The parent that opened the channel has ended, and perhaps the database with it: exit as after a crash.
    process.on('disconnect', () => process.exit(1));
    const running = await life.start(settings, logger, abort.signal);
    logger.info({ pid: process.pid }, 'started');
    tellStarter({ kind: 'started' });
    await told;
    logger.info({ pid: process.pid }, 'stopping');
    await running.close();
    process.exit(0);
  } catch (error) {
    if (abort.signal.aborted) process.exit(0);
    process.stderr.write(`${service}: ${complaintOf(error, explained)}\n`);
    process.exit(1);
  }
}
