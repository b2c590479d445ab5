import { answerHostCall, describeCallFailure } from './host-calls.ts';
import { holderOf, type Job } from './job.ts';
import type { SandboxLimits } from './limits.ts';
import type { ChildOutcome, FromChild } from './messages.ts';
import { emptyConsole } from './outcome.ts';
import type { PlainOutcomeKind } from './outcome.ts';
import type { SandboxChild } from './sandbox-child.ts';

type CallMessage = Extract<FromChild, { type: 'call' }>;

const fatalSignals = new Set<NodeJS.Signals>(['SIGABRT', 'SIGTRAP', 'SIGILL']);
/** Outcomes after which the child continues: the isolate ended normally, or V8 left the code at its time limit. */
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

/** One job in one child, from its start to the moment at which the child is free or dead. */
export class Execution {
  readonly job: Job;
  readonly startedAt = performance.now();
  /** When its time is over. */
  readonly endsAt: number;
  readonly #child: SandboxChild;
  readonly #limits: SandboxLimits;
  readonly #aborts = new Map<number, AbortController>();
  readonly #watchdog: NodeJS.Timeout;
  #reason: PlainOutcomeKind | undefined;
  #settled = false;
  #requests = 0;
  #bytesInFlight = 0;
  #unanswered = 0;
  #runsAskedFor = 0;
  #moves = 0;

  /** @param endsBefore the end of the time of the run that waits for this one */
  constructor(child: SandboxChild, job: Job, limits: SandboxLimits, endsBefore = Infinity) {
    this.#child = child;
    this.job = job;
    this.#limits = limits;
    const { number, purpose, code, input } = job;
    const timeoutMs = Math.max(1, Math.min(job.timeoutMs, Math.ceil(endsBefore - this.startedAt)));
    this.endsAt = this.startedAt + timeoutMs;
    this.#watchdog = setTimeout(() => this.kill('timed-out'), timeoutMs + limits.graceMs);
    child.run({ run: number, purpose, code, input, timeoutMs });
  }

  /** Whether the service owes the code the answer to a call. */
  get awaitsAnswer(): boolean {
    return this.#unanswered > 0;
  }

  /** Whether one of these calls asks for another run. */
  get awaitsRun(): boolean {
    return this.#runsAskedFor > 0;
  }

  /** Rises with each message of the child and each answer to it. */
  get moves(): number {
    return this.#moves;
  }

  /** The watchdog outside the child: code that V8 cannot interrupt is ended by killing its process. */
  kill(reason: PlainOutcomeKind): void {
    this.#reason ??= reason;
    this.#child.kill();
    this.#settle({ kind: this.#reason, console: emptyConsole });
  }

  /** @returns true when the child is free for another run */
  onMessage(message: Exclude<FromChild, { type: 'ready' }>): boolean {
    if (message.run !== this.job.number) return false;
    this.#moves += 1;
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
    // A child that was just killed may have sent this message before it died.
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
    // A sound child counts the same way and never exceeds the limit.
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
    const runs = message.method === 'svc.reactors.react' ? 1 : 0;
    this.#unanswered += 1;
    this.#runsAskedFor += runs;
    const respond = (ok: boolean, text: string): void => {
      this.#unanswered -= 1;
      this.#runsAskedFor -= runs;
      this.#moves += 1;
      // An answer counts as in flight until the child has read it. Otherwise a child that does not read would make
      // the service hold any number of answers.
      const onOut = (): void => {
        this.#aborts.delete(call);
        this.#bytesInFlight -= bytes;
      };
      if (!this.#settled) this.#child.answer({ run: this.job.number, call, ok, payload: text }, onOut);
    };
    const caller = { calls: hostCalls, holder: holderOf(this.job), signal: abort.signal };
    answerHostCall(caller, message, this.#limits).then(
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

/** The end of the time of the run that waits for this one. Undefined when it is not among these. */
export function endOfWaiter(
  { waiter }: Job,
  among: Iterable<{ readonly execution?: Execution }>,
): number | undefined {
  if (waiter === undefined) return undefined;
  for (const { execution } of among) if (execution?.job.runId === waiter.id) return execution.endsAt;
  return undefined;
}
