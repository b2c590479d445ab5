import type { SandboxLimits } from '../limits.ts';
import type { ChildOutcome, ChildRun, FromChild } from '../messages.ts';
import { parseChecked } from '../checked-json.ts';
import { findSyntaxError } from './compile.ts';
import { performCrypto } from './cryptography.ts';
import type { IsolateFactory, PreparedIsolate } from './isolate.ts';
import { createConsoleCapture } from './console-capture.ts';

type Ending = ChildOutcome extends infer Each
  ? Each extends unknown
    ? Omit<Each, 'console'>
    : never
  : never;

const watchIntervalMs = 20;

/** One run of a tenant's code in an isolate of its own. */
export class Invocation {
  readonly #run: ChildRun;
  readonly #limits: SandboxLimits;
  readonly #factory: IsolateFactory;
  readonly #prepared: PreparedIsolate;
  readonly #send: (message: FromChild) => void;
  readonly #console;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #calls = new Set<string>();
  readonly #deadline: number;
  readonly #watch: NodeJS.Timeout;
  readonly #deadlineTimer: NodeJS.Timeout;
  readonly #finished = Promise.withResolvers<void>();
  #entries = 0;
  #hostCalls = 0;
  #requests = 0;
  #hostCpuMs = 0;
  #done = false;

  constructor(
    run: ChildRun,
    limits: SandboxLimits,
    factory: IsolateFactory,
    prepared: PreparedIsolate,
    send: (message: FromChild) => void,
  ) {
    this.#run = run;
    this.#limits = limits;
    this.#factory = factory;
    this.#prepared = prepared;
    this.#send = send;
    this.#console = createConsoleCapture(limits);
    this.#deadline = performance.now() + run.timeoutMs;
    this.#deadlineTimer = setTimeout(() => this.#finish({ kind: 'timed-out' }), run.timeoutMs);
    this.#watch = setInterval(() => this.#checkBudgets(), watchIntervalMs);
    prepared.onHost = (operation, first, second) => this.#onHost(operation, first, second);
    prepared.onCatastrophe = (message) => this.#onCatastrophe(message);
  }

  get number(): number {
    return this.#run.run;
  }

  /** Resolves when the outcome is sent and no thread is inside the isolate any more: the child may take another run. */
  async execute(): Promise<void> {
    const problem = findSyntaxError(this.#prepared.isolate, this.#run.code);
    if (problem === undefined) {
      try {
        this.#load();
        this.#enter('start', this.#run.input);
      } catch {
        this.#finish({ kind: 'killed' });
      }
    } else {
      this.#finish({ kind: 'compile-error', ...problem });
    }
    await this.#finished.promise;
  }

  answer(call: number, ok: boolean, payload: string): void {
    if (!this.#calls.delete(`${call}`) || this.#done) return;
    this.#enter('answer', `${call}`, JSON.stringify({ ok, payload }));
  }

  /** The code is a function body by now (checked), so this stores a function and runs nothing of the tenant's. */
  #load(): void {
    const { isolate, context } = this.#prepared;
    this.#factory.preload(this.#prepared, this.#run.code);
    const prefix = '__main(function (module, exports, require) {';
    const script = isolate.compileScriptSync(`${prefix}${this.#run.code}\n});void 0`, {
      filename: 'reactor.js',
      columnOffset: -prefix.length,
    });
    script.runSync(context, { timeout: 1_000 });
    script.release();
    context.global.deleteSync('__main');
  }

  /** Every entry has a time limit: asynchronous answers enter by a call, never by a promise left inside. */
  #enter(kind: string, first: string, second = ''): void {
    const timeout = Math.max(1, Math.ceil(this.#deadline - performance.now()));
    this.#entries += 1;
    this.#prepared.dispatch
      .apply(undefined, [kind, first, second], { timeout })
      .catch((error: unknown) => this.#finish(this.#endingOf(error)))
      .finally(() => {
        this.#entries -= 1;
        this.#settleIfStuck();
        this.#releaseIfOver();
      });
  }

  #endingOf(error: unknown): Ending {
    const message = error instanceof Error ? error.message : '';
    if (this.#prepared.isolate.isDisposed || message.includes('memory limit'))
      return { kind: 'out-of-memory' };
    if (message === 'Script execution timed out.') return { kind: 'timed-out' };
    return { kind: 'killed' };
  }

  #onHost(operation: string, first: string, second: string): string | undefined {
    if (this.#done) return undefined;
    if (++this.#hostCalls > this.#limits.hostCalls)
      this.#finish({ kind: 'limit-exceeded', limit: 'host calls' });
    switch (operation) {
      case 'log':
        this.#console.add(first, second);
        return undefined;
      case 'timer':
        this.#arm(first, Number(second));
        return undefined;
      case 'clear':
        clearTimeout(this.#timers.get(first));
        this.#timers.delete(first);
        return undefined;
      case 'call':
        return this.#call(first, second);
      case 'abort':
        if (this.#calls.delete(first)) this.#send({ type: 'abort', run: this.#run.run, call: Number(first) });
        return undefined;
      case 'source':
        return this.#factory.sourceOf(first);
      case 'crypto':
        return this.#crypto(first);
      default:
        this.#onEnding(operation, first, second);
        return undefined;
    }
  }

  #arm(id: string, ms: number): void {
    if (this.#timers.size >= this.#limits.timers) this.#finish({ kind: 'limit-exceeded', limit: 'timers' });
    if (this.#done) return;
    const fire = (): void => {
      this.#timers.delete(id);
      if (!this.#done) this.#enter('timer', id);
    };
    this.#timers.set(id, setTimeout(fire, ms));
  }

  #call(id: string, text: string): undefined {
    const { method, payload } = JSON.parse(text) as { method?: unknown; payload?: unknown };
    if (
      !/^\d{1,9}$/.test(id) ||
      this.#calls.has(id) ||
      typeof method !== 'string' ||
      typeof payload !== 'string'
    )
      return;
    if (++this.#requests > this.#limits.requests) this.#finish({ kind: 'limit-exceeded', limit: 'requests' });
    else if (this.#calls.size >= this.#limits.requestsInFlight)
      this.#finish({ kind: 'limit-exceeded', limit: 'requests in flight' });
    if (this.#done) return;
    this.#calls.add(id);
    this.#send({ type: 'call', run: this.#run.run, call: Number(id), method, payload });
  }

  #crypto(text: string): string {
    const startedAt = performance.now();
    const answer = performCrypto(text);
    this.#hostCpuMs += performance.now() - startedAt;
    return answer;
  }

  #onEnding(operation: string, first: string, second: string): void {
    switch (operation) {
      case 'succeeded':
      case 'failed':
        this.#finish(this.#checkedText(operation, first));
        return;
      case 'not-serialisable':
      case 'output-too-large':
      case 'out-of-memory':
      case 'compiled':
        this.#finish({ kind: operation });
        return;
      case 'load-failed': {
        const [line, column] = second.split(':').map(Number);
        const position =
          line === undefined || column === undefined || !(line > 0) || !(column > 0) ? {} : { line, column };
        this.#finish({ kind: 'compile-error', message: first.slice(0, 2_000), ...position });
      }
    }
  }

  #checkedText(kind: 'succeeded' | 'failed', text: string): Ending {
    const { resultBytes, jsonDepth, jsonNodes } = this.#limits;
    if (text.length > resultBytes || Buffer.byteLength(text) > resultBytes)
      return { kind: 'output-too-large' };
    try {
      parseChecked(text, { depth: jsonDepth, nodes: jsonNodes });
      return { kind, text };
    } catch {
      return { kind: 'not-serialisable' };
    }
  }

  #checkBudgets(): void {
    if (process.memoryUsage.rss() > this.#limits.childRssMb * 1_048_576) {
      this.#finish({ kind: 'out-of-memory' });
      return;
    }
    const { isolate } = this.#prepared;
    const cpuMs = isolate.isDisposed ? 0 : Number(isolate.cpuTime) / 1e6;
    if (cpuMs + this.#hostCpuMs > this.#limits.cpuMs) this.#finish({ kind: 'timed-out' });
  }

  #onCatastrophe(message: string): void {
    this.#finish({ kind: message.includes('memory') ? 'out-of-memory' : 'timed-out' });
    // V8 has lost the isolate's thread: nothing but the end of the process frees it, and exit() would wait for it.
    process.kill(process.pid, 'SIGKILL');
  }

  /** Nothing inside runs and nothing outside will call back, yet the promise is open: it stays open for ever. */
  #settleIfStuck(): void {
    if (this.#entries + this.#timers.size + this.#calls.size === 0) this.#finish({ kind: 'never-settled' });
  }

  #finish(ending: Ending): void {
    if (this.#done) return;
    this.#done = true;
    clearTimeout(this.#deadlineTimer);
    clearInterval(this.#watch);
    this.#timers.forEach((timer) => clearTimeout(timer));
    this.#timers.clear();
    this.#send({
      type: 'outcome',
      run: this.#run.run,
      outcome: { ...ending, console: this.#console.content() } as ChildOutcome,
    });
    // Not here: the guest's thread may be waiting for the answer to the host operation that brought the ending.
    setImmediate(() => {
      if (!this.#prepared.isolate.isDisposed) this.#prepared.isolate.dispose();
      this.#releaseIfOver();
    });
  }

  #releaseIfOver(): void {
    if (this.#done && this.#entries === 0 && this.#prepared.isolate.isDisposed) this.#finished.resolve();
  }
}
