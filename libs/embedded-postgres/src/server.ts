import type { ChildProcess } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { cannotRun } from './cluster.ts';
import type { Logger } from './logger.ts';
import { ServerLog } from './server-log.ts';
import { StartError } from './start-error.ts';

export interface PostgresExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const lockFile = (dataDirectory: string) => path.join(dataDirectory, 'postmaster.pid');

/** Distinguishes two versions of the lock file. In a container each start has the same process ids, so the file that a killed run left can have the same content as the next one. */
export async function lockFileMark(dataDirectory: string): Promise<string> {
  const info = await stat(lockFile(dataDirectory), { bigint: true }).catch(() => undefined);
  return info === undefined ? '' : `${info.ino} ${info.mtimeNs}`;
}

type ExitListener = (exit: PostgresExit) => void;

/** A postmaster that this process started. `onGone` runs once, after the postmaster has ended and before the listeners are called. */
export class Server {
  readonly #child: ChildProcess;
  readonly #log: ServerLog;
  readonly #gone: Promise<PostgresExit>;
  readonly #listeners: ExitListener[] = [];
  #exit: PostgresExit | undefined;
  #stopping: Promise<void> | undefined;

  constructor(child: ChildProcess & { stderr: Readable }, logger: Logger, onGone: () => Promise<void>) {
    this.#child = child;
    this.#log = new ServerLog(logger);
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.#log.write(text));
    this.#gone = new Promise<PostgresExit>((resolve, reject) => {
      child.on('error', reject);
      child.on('exit', (code, signal) => {
        const exit = { code, signal };
        onGone().then(() => resolve(exit), reject);
      });
    });
    this.#gone.then(
      (exit) => this.#ended(exit),
      () => {},
    );
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  /**
   * Resolves when Postgres accepts connections, however long crash recovery takes.
   * @param leftMark the mark of the lock file before Postgres was started
   * @throws StartError with Postgres' own reason when it ends instead.
   */
  async ready(dataDirectory: string, leftMark: string): Promise<void> {
    const failed = this.#gone.then(
      () => 'ended' as const,
      (error: unknown) => {
        throw cannotRun(this.#child.spawnfile, error);
      },
    );
    while (!(await this.#isReady(dataDirectory, leftMark))) {
      if ((await Promise.race([failed, sleep(10)])) === 'ended') {
        throw new StartError(`Postgres did not start: ${this.#log.complaint()}`);
      }
    }
    this.#log.serverIsUp();
  }

  /** Fast shutdown: sessions end, a checkpoint is written. If that takes 20 s, Postgres is killed and the next start recovers. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  onExit(listener: ExitListener): void {
    if (this.#stopping) return;
    if (this.#exit) listener(this.#exit);
    else this.#listeners.push(listener);
  }

  async #stop(): Promise<void> {
    for (const [signal, graceMs] of [
      ['SIGINT', 20_000],
      // The postmaster kills its children 5 s after it.
      ['SIGQUIT', 10_000],
      ['SIGKILL', 5_000],
    ] as const) {
      if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill(signal);
      const timer = new AbortController();
      const grace = sleep(graceMs, false, { signal: timer.signal }).catch(() => false);
      const isGone = await Promise.race([this.#gone.then(() => true), grace]);
      timer.abort();
      if (isGone) return;
    }
    throw new Error(`Postgres (process ${this.pid}) does not end`);
  }

  #ended(exit: PostgresExit): void {
    this.#exit = exit;
    if (this.#stopping) return;
    for (const listener of this.#listeners) listener(exit);
  }

  /** Reads the eighth line of postmaster.pid, as pg_ctl does; unlike the log it is not translated. */
  async #isReady(dataDirectory: string, leftMark: string): Promise<boolean> {
    if ((await lockFileMark(dataDirectory)) === leftMark) return false;
    const text = await readFile(lockFile(dataDirectory), 'utf8').catch(() => '');
    const lines = text.split('\n');
    return Number(lines[0]) === this.pid && lines[7]?.trim() === 'ready';
  }
}
