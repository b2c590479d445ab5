import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Logger } from '@token-vault/observability';
import type { ToStarter } from '@token-vault/process';

const root = path.resolve(import.meta.dirname, '../../..');

export interface ReplicaOptions {
  /** e.g. `command-service 1` */
  readonly name: string;
  /** The path from the root of the repository. */
  readonly script: string;
  readonly port: number;
  readonly environment: NodeJS.ProcessEnv;
  readonly logger: Logger;
  readonly onChange: () => void;
}

const restartMs = 500;
/** kafkajs sets timers to moments in the past, which is harmless (kafkajs 2.2.4 on Node 24). */
const quiet = ['--disable-warning=TimeoutNegativeWarning'];

/** One process of the stack. It is started again whenever it ends by itself. */
export class Replica {
  readonly name: string;
  readonly port: number;
  readonly #options: ReplicaOptions;
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #isStopping = false;
  readonly #leads = new Set<string>();

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.name = options.name;
    this.port = options.port;
  }

  /** Undefined while the process does not run. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** The tasks that the process leads now, by name. */
  get leads(): readonly string[] {
    return [...this.#leads];
  }

  /**
   * Resolves when the process reports that it has started. @throws Error when it ends instead; the reason is on
   * stderr
   */
  async start(): Promise<void> {
    const child = this.#spawn();
    await new Promise<void>((resolve, reject) => {
      child.on('message', ({ kind }: ToStarter) => kind === 'started' && resolve());
      child.once('error', reject);
      child.once('exit', () => reject(new Error(`${this.name} did not start`)));
    });
    child.once('exit', () => this.#ended());
  }

  /** From now on the process may end by itself, for example when a terminal signals the whole group. */
  expectEnd(): void {
    this.#isStopping = true;
    clearTimeout(this.#restart);
  }

  /** Asks the process to end and waits for its end. */
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
    // The child gets the flags of this process and a channel, whose close tells the child that this process has
    // ended.
    const child = spawn(process.execPath, [...process.execArgv, ...quiet, script], {
      cwd: root,
      env: { ...environment, VAULT_PORT: String(port) },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    child.on('message', (message: ToStarter) => this.#hear(message));
    child.once('exit', () => {
      this.#child = undefined;
      this.#leads.clear();
      this.#options.onChange();
    });
    this.#options.onChange();
    return child;
  }

  #hear(message: ToStarter): void {
    if (message.kind !== 'leading') return;
    if (message.isLeading) this.#leads.add(message.task);
    else this.#leads.delete(message.task);
    this.#options.onChange();
  }

  #ended(): void {
    if (this.#isStopping) return;
    this.#options.logger.warn(
      { component: this.name },
      'a process has ended unexpectedly: it is started again',
    );
    this.#restart = setTimeout(() => {
      this.start().catch(() => this.#ended());
    }, restartMs);
  }
}
