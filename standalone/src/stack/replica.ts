import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Logger } from '@token-vault/service-kit';

const root = path.resolve(import.meta.dirname, '../../..');

export interface ReplicaOptions {
  /** e.g. `command-service 1` */
  readonly name: string;
  /** From the root of the repository. */
  readonly script: string;
  readonly port: number;
  readonly environment: NodeJS.ProcessEnv;
  readonly logger: Logger;
  readonly onChange: () => void;
}

const restartMs = 500;
/** kafkajs sets a timer to a moment that has passed, which is harmless (docs of kafkajs 2.2.4 on Node 24). */
const quiet = ['--disable-warning=TimeoutNegativeWarning'];

/** One process of the stack, started anew whenever it ends by itself. */
export class Replica {
  readonly name: string;
  readonly port: number;
  readonly #options: ReplicaOptions;
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #isStopping = false;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.name = options.name;
    this.port = options.port;
  }

  /** Undefined while it is not there. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when it says that it has started. @throws Error when it ends instead; why is on stderr */
  async start(): Promise<void> {
    const child = this.#spawn();
    await new Promise<void>((resolve, reject) => {
      child.once('message', () => resolve());
      child.once('error', reject);
      child.once('exit', () => reject(new Error(`${this.name} did not start`)));
    });
    child.once('exit', () => this.#ended());
  }

  /** From now on it may end by itself, as when a terminal tells the whole group. */
  expectEnd(): void {
    this.#isStopping = true;
    clearTimeout(this.#restart);
  }

  /** Asks it to end and waits for that. */
  async stop(): Promise<void> {
    this.expectEnd();
    const child = this.#child;
    if (!child) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }

  #spawn(): ChildProcess {
    const { script, environment, port } = this.#options;
    // With the flags of this one. With a channel: it learns of our end by that, whatever the end is.
    const child = spawn(process.execPath, [...process.execArgv, ...quiet, script], {
      cwd: root,
      env: { ...environment, VAULT_PORT: String(port) },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    child.once('exit', () => {
      this.#child = undefined;
      this.#options.onChange();
    });
    this.#options.onChange();
    return child;
  }

  #ended(): void {
    if (this.#isStopping) return;
    this.#options.logger.warn({ component: this.name }, 'a process has ended by itself: it is started again');
    this.#restart = setTimeout(() => {
      this.start().catch(() => this.#ended());
    }, restartMs);
  }
}
