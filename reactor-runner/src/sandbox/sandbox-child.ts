import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import type { Socket } from 'node:net';
import type { SandboxBundle } from './bundle.ts';
import type { ChildCommand } from './child-command.ts';
import { isRunning, processIn } from './inner-process.ts';
import type { SandboxLimits } from './limits.ts';
import { createFrameReader, envelopeBudget } from './frames.ts';
import { ProtocolError } from './messages.ts';
import type { ChildRun, FromChild, ToChild } from './messages.ts';
import { startChild } from './start-child.ts';

const startTimeoutMs = 15_000;
/** The messages of one run for each request that it may make: the call, its end, and one to spare. */
const messagesPerRequest = 3;
/**
 * A sound child writes a head and a body. A longer message comes in pieces of about 32 KB. Each piece costs the
 * service a turn of its event loop.
 */
const piecesPerMessage = 2;
const leastPieceBytes = 4_096;

export interface ChildEvents {
  onReady(): void;
  onMessage(message: Exclude<FromChild, { type: 'ready' }>): void;
  /** Called once, for every cause of the end. `signal` is set when a signal killed the process. */
  onExit(signal: NodeJS.Signals | null): void;
}

/** The pool's side of one child process. A message that a sound child would not send kills the child. */
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
  #envelopeBytes = 0;
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
    // Not 'exit': the last messages of the child may still be in the socket then.
    this.#process.on('close', (code, signal) => this.#onExit(this.#causeOf(signal ?? signalTold(code))));
    this.#socket.on('error', () => this.kill());
    const read = createFrameReader(
      limits,
      (message) => this.#onFrame(message),
      (bytes) => this.#refuseEnvelopes(bytes),
    );
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

  /** The id of the process that runs code. */
  get pid(): number | undefined {
    const { pid } = this.#process;
    if (!this.#isAlone || pid === undefined) return pid;
    this.#innerPid ??= processIn(pid);
    return this.#innerPid ?? pid;
  }

  /** False when the process has ended. The process that waits for it reports this a little later. */
  isThere(): boolean {
    return !this.#isAlone || this.#innerPid === undefined || isRunning(this.#innerPid);
  }

  run(run: ChildRun): void {
    this.#messages = 0;
    this.#pieces = 0;
    this.#envelopeBytes = 0;
    this.#send({ type: 'run', ...run });
  }

  /** @param onOut called when the service no longer holds the answer */
  answer(answer: Omit<Extract<ToChild, { type: 'answer' }>, 'type'>, onOut: () => void): void {
    this.#send({ type: 'answer', ...answer }, onOut);
  }

  kill(): void {
    const { pid } = this.#process;
    if (this.#exited || pid === undefined) return;
    // Read each time: while the waiting process lives, this id is not used again. The waiting process reaps the child
    // and then ends itself.
    const inner = this.#isAlone ? processIn(pid) : undefined;
    if (inner === undefined || !tryKill(inner)) this.#process.kill('SIGKILL');
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

  /** Parsing envelopes takes time of the service's only thread. */
  #refuseEnvelopes(bytes: number): void {
    this.#envelopeBytes += bytes;
    if (this.#envelopeBytes > envelopeBudget(this.#limits, this.#mostMessages))
      throw new ProtocolError('too many bytes of envelopes');
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

  /** The first process of a namespace is not ended by its own SIGABRT: abort(3) then causes a fault. */
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

/** bubblewrap reports the signal that ended the child as a shell does; `unshare` ends by the same signal. */
function signalTold(code: number | null): NodeJS.Signals | null {
  const isOf = ([, number]: [string, number]): boolean => code === 128 + number;
  return (Object.entries(constants.signals).find(isOf)?.[0] ?? null) as NodeJS.Signals | null;
}

/** False when there is no such process. */
function tryKill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
