import { answerHostCall, describeCallFailure } from './host-calls.ts';
import type { Job } from './job.ts';
import type { SandboxLimits } from './limits.ts';
import type { ChildOutcome, FromChild } from './messages.ts';
import { emptyConsole } from './outcome.ts';
import type { PlainOutcomeKind } from './outcome.ts';
import type { SandboxChild } from './sandbox-child.ts';

type CallMessage = Extract<FromChild, { type: 'call' }>;

const fatalSignals = new Set<NodeJS.Signals>(['SIGABRT', 'SIGTRAP', 'SIGILL']);
/** Outcomes after which the child goes on: the isolate ended in an orderly way, or V8 left the code when its time was over. */
const orderly = new Set([
  'succeeded',
  'failed',
  'compiled',
  'compile-error',
  'not-serialisable',
  'output-too-large',
  'never-settled',
  'timed-out',
]);

/** One job in one child, from its start to the moment the child is free or dead. */
export class Execution {
  readonly job: Job;
  readonly startedAt = performance.now();
  readonly #child: SandboxChild;
  readonly #limits: SandboxLimits;
  readonly #aborts = new Map<number, AbortController>();
  readonly #watchdog: NodeJS.Timeout;
  #reason: PlainOutcomeKind | undefined;
  #settled = false;
  #requests = 0;
  #bytesInFlight = 0;

  constructor(child: SandboxChild, job: Job, limits: SandboxLimits) {
    this.#child = child;
    this.job = job;
    this.#limits = limits;
    this.#watchdog = setTimeout(() => this.kill('timed-out'), job.timeoutMs + limits.graceMs);
    const { number, purpose, code, input, timeoutMs } = job;
    child.run({ run: number, purpose, code, input, timeoutMs });
  }

  /** The outside watchdog: what V8 cannot interrupt ends with its process. */
  kill(reason: PlainOutcomeKind): void {
    this.#reason ??= reason;
    this.#child.kill();
    this.#settle({ kind: this.#reason, console: emptyConsole });
  }

  /** @returns true when the child is free for another run */
  onMessage(message: Exclude<FromChild, { type: 'ready' }>): boolean {
    if (message.run !== this.job.number) return false;
    switch (message.type) {
      case 'call':
        this.#onCall(message);
        return false;
      case 'abort':
        this.#aborts.get(message.call)?.abort();
        return false;
      case 'outcome':
        return this.#onOutcome(message.outcome);
    }
  }

  onExit(signal: NodeJS.Signals | null): void {
    clearTimeout(this.#watchdog);
    const kind = this.#reason ?? (signal !== null && fatalSignals.has(signal) ? 'out-of-memory' : 'killed');
    this.#settle({ kind, console: emptyConsole });
  }

  #onOutcome(outcome: ChildOutcome): boolean {
    // A child that was just killed may have said this before it died.
    if (this.#settled) return false;
    clearTimeout(this.#watchdog);
    const isSound = orderly.has(outcome.kind);
    if (!isSound) this.#child.kill();
    this.#settle(outcome);
    return isSound;
  }

  #onCall(message: CallMessage): void {
    const { hostCalls } = this.job;
    const { call } = message;
    if (this.#settled || hostCalls === undefined || this.#aborts.has(call)) return;
    const { requests, requestsInFlight, requestBytesInFlight } = this.#limits;
    const bytes = message.payload.length + (message.body?.length ?? 0);
    this.#bytesInFlight += bytes;
    // A sound child counts the same, and never comes here with more.
    const isTooMuch =
      ++this.#requests > requests ||
      this.#aborts.size >= requestsInFlight ||
      this.#bytesInFlight > requestBytesInFlight;
    if (isTooMuch) {
      this.kill('killed');
      return;
    }
    const abort = new AbortController();
    this.#aborts.set(call, abort);
    const respond = (ok: boolean, text: string): void => {
      // In flight until the child has taken it: one that reads nothing would have the service hold any number of answers.
      const onOut = (): void => {
        this.#aborts.delete(call);
        this.#bytesInFlight -= bytes;
      };
      if (!this.#settled) this.#child.answer({ run: this.job.number, call, ok, payload: text }, onOut);
    };
    answerHostCall(hostCalls, message, this.#limits, abort.signal).then(
      (text) => respond(true, text),
      (error: unknown) => respond(false, describeCallFailure(error)),
    );
  }

  #settle(outcome: ChildOutcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#aborts.forEach((abort) => abort.abort());
    this.job.settle(outcome);
  }
}
