import type { SandboxLimits } from '../limits.ts';
import type { ChildOutcome, ChildRun, FromChild } from '../messages.ts';
import { parseChecked } from '../checked-json.ts';
import { partsOf } from './call-parts.ts';
import { findSyntaxError, lineOfExport } from './compile.ts';
import { performCrypto } from './cryptography.ts';
import type { HostFunction, IsolateFactory, PreparedIsolate } from './isolate.ts';
import { createConsoleCapture } from './console-capture.ts';

type Ending = ChildOutcome extends infer Each
  ? Each extends unknown
    ? Omit<Each, 'console'>
    : never
  : never;

interface Machinery {
  readonly limits: SandboxLimits;
  readonly factory: IsolateFactory;
  readonly prepared: PreparedIsolate;
}

/**
 * One run of a tenant's code in its own isolate, on this process's only thread (ADR 12). So this process cannot watch
 * the code while it runs: the pool limits its CPU time and memory, and ends code that V8 cannot interrupt.
 */
export class Invocation {
  readonly #run: ChildRun;
  readonly #limits: SandboxLimits;
  readonly #factory: IsolateFactory;
  readonly #prepared: PreparedIsolate;
  readonly #send: (message: FromChild) => void;
  readonly #console;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** The number of bytes that the pool holds of each call, by id. */
  readonly #calls = new Map<string, number>();
  #bytesInFlight = 0;
  #headsBytes = 0;
  readonly #deadline: number;
  readonly #deadlineTimer: NodeJS.Timeout;
  readonly #onOver: (outcome: ChildOutcome) => void;
  #hostCalls = 0;
  #requests = 0;
  #isInside = false;
  #ending: Ending | undefined;

  /** @param onOver called once, when no code of the tenant runs any more and the isolate may be disposed */
  constructor(
    run: ChildRun,
    { limits, factory, prepared }: Machinery,
    send: (message: FromChild) => void,
    onOver: (outcome: ChildOutcome) => void,
  ) {
    this.#run = run;
    this.#limits = limits;
    this.#factory = factory;
    this.#prepared = prepared;
    this.#send = send;
    this.#onOver = onOver;
    this.#console = createConsoleCapture(limits);
    this.#deadline = performance.now() + run.timeoutMs;
    this.#deadlineTimer = setTimeout(() => this.#finish({ kind: 'timed-out' }), run.timeoutMs);
    // Assigned by a name: V8 keeps a function that is written at its assignment alive longer (ADR 13).
    const onHost: HostFunction = (operation, first, second) => this.#onHost(operation, first, second);
    prepared.onHost = onHost;
  }

  get number(): number {
    return this.#run.run;
  }

  start(): void {
    const problem = findSyntaxError(this.#prepared.isolate, this.#run.code);
    if (problem !== undefined) this.#finish({ kind: 'compile-error', ...problem });
    else if (this.#load()) this.#enter('start', this.#run.input);
  }

  answer(call: number, ok: boolean, payload: string): void {
    if (!this.#release(`${call}`) || this.#ending !== undefined) return;
    this.#enter('answer', `${call}`, JSON.stringify({ ok, payload }));
  }

  /** The code was checked to be a function body, so this only defines a function and runs no code of the tenant. */
  #load(): boolean {
    try {
      const { isolate, context } = this.#prepared;
      this.#factory.preload(this.#prepared, this.#run.code);
      const prefix = '__main(function (module, exports, require) {';
      const script = isolate.compileScriptSync(`${prefix}${this.#run.code}\n});void 0`, {
        filename: 'reactor.js',
        columnOffset: -prefix.length,
      });
      script.runSync(context);
      script.release();
      return true;
    } catch {
      this.#finish({ kind: 'killed' });
      return false;
    }
  }

  /** Every entry has a time limit. Asynchronous answers enter by a call, never by a promise that is left inside. */
  #enter(kind: string, first: string, second = ''): void {
    const timeout = Math.max(1, Math.ceil(this.#deadline - performance.now()));
    this.#isInside = true;
    try {
      this.#prepared.dispatch.applySync(undefined, [kind, first, second], { timeout });
    } catch (error) {
      this.#finish(this.#endingOf(error));
    }
    this.#isInside = false;
    // No timer and no call is left, so an open promise would stay open for ever.
    if (this.#timers.size + this.#calls.size === 0) this.#ending ??= { kind: 'never-settled' };
    if (this.#ending !== undefined) this.#over(this.#ending);
  }

  #endingOf(error: unknown): Ending {
    const message = error instanceof Error ? error.message : '';
    if (this.#prepared.isolate.isDisposed || message.includes('memory limit'))
      return { kind: 'out-of-memory' };
    if (message === 'Script execution timed out.') return { kind: 'timed-out' };
    return { kind: 'killed' };
  }

  #onHost(operation: string, first: string, second: string): string | undefined {
    if (this.#ending !== undefined) return this.#cut();
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
        if (this.#release(first)) this.#send({ type: 'abort', run: this.#run.run, call: Number(first) });
        return undefined;
      case 'source':
        return this.#factory.sourceOf(first);
      case 'crypto':
        return performCrypto(first);
      default:
        this.#onEnding(operation, first, second);
        return undefined;
    }
  }

  #arm(id: string, ms: number): void {
    if (this.#timers.size >= this.#limits.timers) this.#finish({ kind: 'limit-exceeded', limit: 'timers' });
    if (this.#ending !== undefined) return;
    const fire = (): void => {
      this.#timers.delete(id);
      this.#enter('timer', id);
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
    if (this.#ending !== undefined) return;
    this.#sendCall(id, method, payload);
  }

  #sendCall(id: string, method: string, text: string): void {
    const parts = partsOf(method, text, this.#limits);
    if ('code' in parts) {
      this.#calls.set(id, 0);
      setImmediate(() => this.answer(Number(id), false, JSON.stringify(parts)));
      return;
    }
    this.#headsBytes += Buffer.byteLength(JSON.stringify(parts.payload));
    if (this.#headsBytes > this.#limits.requestHeadsBytes) {
      this.#finish({ kind: 'limit-exceeded', limit: 'bytes of request heads' });
      return;
    }
    const bytes = parts.payload.length + (parts.body?.length ?? 0);
    if (this.#bytesInFlight + bytes > this.#limits.requestBytesInFlight) {
      this.#finish({ kind: 'limit-exceeded', limit: 'bytes of requests in flight' });
      return;
    }
    this.#bytesInFlight += bytes;
    this.#calls.set(id, bytes);
    this.#send({ type: 'call', run: this.#run.run, call: Number(id), method, ...parts });
  }

  /** False when no such call is running. */
  #release(id: string): boolean {
    this.#bytesInFlight -= this.#calls.get(id) ?? 0;
    return this.#calls.delete(id);
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
        const isKnown = line !== undefined && column !== undefined && line > 0 && column > 0;
        const position = isKnown ? { line, column } : { line: lineOfExport(this.#run.code) };
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

  /** The first ending counts. When the code is still running, the ending is sent after the code has returned. */
  #finish(ending: Ending): void {
    if (this.#ending !== undefined) return;
    this.#ending = ending;
    if (!this.#isInside) this.#over(ending);
    else if (ending.kind === 'limit-exceeded') this.#cut();
  }

  /** Makes V8 leave the code at its next check. */
  #cut(): undefined {
    const { isolate } = this.#prepared;
    if (!isolate.isDisposed) isolate.dispose();
  }

  #over(ending: Ending): void {
    clearTimeout(this.#deadlineTimer);
    this.#timers.forEach((timer) => clearTimeout(timer));
    this.#timers.clear();
    this.#onOver({ ...ending, console: this.#console.content() });
  }
}
