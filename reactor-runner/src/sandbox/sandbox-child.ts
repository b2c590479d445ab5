import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import type { Socket } from 'node:net';
import type { SandboxBundle } from './bundle.ts';
import type { ChildCommand } from './child-command.ts';
import { isRunning, processIn } from './inner-process.ts';
import type { SandboxLimits } from './limits.ts';
import { createFrameReader } from './frames.ts';
import { ProtocolError } from './messages.ts';
import type { ChildRun, FromChild, ToChild } from './messages.ts';
import { startChild } from './start-child.ts';

const startTimeoutMs = 15_000;
/** Of one run, for each request it may make: the call, its end, and some more. */
const messagesPerRequest = 3;
/** A sound child writes a head and a body; what is longer comes in pieces of 32 KB or so. Each piece costs the service a turn. */
const piecesPerMessage = 2;
const leastPieceBytes = 4_096;

export interface ChildEvents {
  onReady(): void;
  onMessage(message: Exclude<FromChild, { type: 'ready' }>): void;
  /** Once, whatever ended it; `signal` is what killed it when a signal did. */
  onExit(signal: NodeJS.Signals | null): void;
}

/** The pool's end of one child process. A message that a sound child would not send kills it. */
export class SandboxChild {
  readonly #process: ChildProcess;
  readonly #socket: Socket;
  readonly #limits: SandboxLimits;
  readonly #events: ChildEvents;
  readonly #startTimer: NodeJS.Timeout;
  readonly #isAlone: boolean;
  #innerPid: number | undefined;
  #exited = false;
  #messages = 0;
  #pieces = 0;
  #ready = false;

  constructor(command: ChildCommand, bundle: SandboxBundle, limits: SandboxLimits, events: ChildEvents) {
    this.#isAlone = command.isAlone;
    this.#limits = limits;
    this.#events = events;
    const { process, socket } = startChild(command);
    this.#process = process;
    this.#socket = socket;
    this.#startTimer = setTimeout(() => this.kill(), startTimeoutMs);
    this.#process.on('error', () => this.#onExit(null));
    // Not 'exit': what the child said last may still be in the socket then.
    this.#process.on('close', (code, signal) => this.#onExit(this.#causeOf(signal ?? signalTold(code))));
    this.#socket.on('error', () => this.kill());
    const read = createFrameReader(limits, (message) => this.#onFrame(message));
    this.#socket.on('data', (chunk: Buffer) => {
      try {
        this.#refusePieces(chunk.length);
        read(chunk);
      } catch {
        this.kill();
      }
    });
    this.#send({ type: 'init', bundle: { core: bundle.core, modules: bundle.modules }, limits });
  }

  /** Of the process that runs code. */
  get pid(): number | undefined {
    const { pid } = this.#process;
    if (!this.#isAlone || pid === undefined) return pid;
    this.#innerPid ??= processIn(pid);
    return this.#innerPid ?? pid;
  }

  /** False when it has ended, which the process that waits for it says a little later. */
  isThere(): boolean {
    return !this.#isAlone || this.#innerPid === undefined || isRunning(this.#innerPid);
  }

  run(run: ChildRun): void {
    this.#messages = 0;
    this.#pieces = 0;
    this.#send({ type: 'run', ...run });
  }

  /** @param onOut called when the service no longer holds it */
  answer(answer: Omit<Extract<ToChild, { type: 'answer' }>, 'type'>, onOut: () => void): void {
    this.#send({ type: 'answer', ...answer }, onOut);
  }

  kill(): void {
    const { pid } = this.#process;
    if (this.#exited || pid === undefined) return;
    // Asked anew: while the process that waits lives, this number is nobody else's. It reaps the child, then ends itself.
    const inner = this.#isAlone ? processIn(pid) : undefined;
    if (inner === undefined || !hasKilled(inner)) this.#process.kill('SIGKILL');
  }

  #send(message: ToChild, onOut: () => void = () => {}): void {
    if (!this.#exited && this.#socket.writable)
      this.#socket.write(`${JSON.stringify(message)}\n`, () => onOut());
    else onOut();
  }

  get #mostMessages(): number {
    return messagesPerRequest * this.#limits.requests + 1;
  }

  #refusePieces(bytes: number): void {
    this.#pieces += Math.max(0, 1 - bytes / leastPieceBytes);
    if (this.#pieces > piecesPerMessage * this.#mostMessages) throw new ProtocolError('too many pieces');
  }

  #onFrame(message: FromChild): void {
    if (this.#exited) return;
    this.#messages += 1;
    if (this.#messages > this.#mostMessages) throw new ProtocolError('too many messages');
    if (message.type !== 'ready') this.#events.onMessage(message);
    else if (!this.#ready) {
      this.#ready = true;
      clearTimeout(this.#startTimer);
      this.#events.onReady();
    }
  }

  /** The first process of a namespace is not ended by a SIGABRT of its own: abort(3) then makes a fault. */
  #causeOf(signal: NodeJS.Signals | null): NodeJS.Signals | null {
    return this.#isAlone && signal === 'SIGSEGV' ? 'SIGABRT' : signal;
  }

  #onExit(signal: NodeJS.Signals | null): void {
    if (this.#exited) return;
    this.#exited = true;
    clearTimeout(this.#startTimer);
    this.#socket.destroy();
    this.#events.onExit(signal);
  }
}

/** bubblewrap tells which signal ended the child as a shell does, `unshare` by ending in the same way. */
function signalTold(code: number | null): NodeJS.Signals | null {
  const isOf = ([, number]: [string, number]): boolean => code === 128 + number;
  return (Object.entries(constants.signals).find(isOf)?.[0] ?? null) as NodeJS.Signals | null;
}

function hasKilled(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
