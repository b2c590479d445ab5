import { TenantShares, type Holder } from '@token-vault/batching';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { addressGroup } from './rate-limits.ts';

/** Maximum number of requests that begin by one read of a connection, and that wait on it before more of it is read. */
const mostWaiting = 16;
/** Maximum number of waiting requests of all connections: each costs some kilobytes. One address may have half of what the others leave. */
const mostOfAll = 8_192;

const endOfHead = Buffer.from('\r\n\r\n');

/** The end of the part of `chunk` in which no more than `mostWaiting` requests begin. */
function endOfPart(chunk: Buffer): number {
  let end = 0;
  for (let count = 0; count < mostWaiting; count += 1) {
    const at = chunk.indexOf(endOfHead, end);
    if (at === -1) return chunk.length;
    end = at + endOfHead.length;
  }
  return end;
}

/** The state of an open connection. */
interface UnderWay {
  readonly holder: Holder;
  readonly answers: Set<ServerResponse>;
  last: ServerResponse | undefined;
  /** Whether nothing more is read for now. */
  isHeld: boolean;
}

/**
 * The answers under way on each connection. A client may send the next request, or malformed bytes, before it has the last answer. That
 * answer must leave first, because its write was done. The next requests wait for it: otherwise a thousand requests of one connection would
 * run at once, and the requests of other clients would wait for them.
 */
export class AnswersUnderWay {
  readonly #bySocket = new WeakMap<Duplex, UnderWay>();
  readonly #waiting = new TenantShares(mostOfAll);

  /**
   * Gives Node's parser the requests of the connection few at a time, and other connections their turn in between. The parser cannot be
   * stopped within the bytes that it was given, and 64 KiB, which one read brings, may be thousands of requests. It costs up to 6 µs a request.
   */
  read(socket: Socket): void {
    const underWay = this.#of(socket);
    const [parsers, pauses, resumes] = ['data', 'pause', 'resume'].map((event) => socket.listeners(event));
    const call = (listeners: Listeners, ...given: readonly unknown[]) => {
      for (const listener of listeners ?? []) Reflect.apply(listener, socket, given);
    };
    socket.removeAllListeners('data');
    socket.on('data', (chunk: Buffer) => {
      const end = endOfPart(chunk);
      const isPart = end < chunk.length;
      if (isPart) {
        hold(underWay, socket);
        socket.unshift(chunk.subarray(end));
      }
      call(parsers, isPart ? chunk.subarray(0, end) : chunk);
      if (underWay.answers.size > mostWaiting) hold(underWay, socket);
      readOn(underWay, socket);
    });
    // Node removes its own when `data` has a listener. They leave in the system what a handler does not read yet.
    socket.on('pause', () => call(pauses));
    socket.on('resume', () => {
      // Node resumes whenever a handler has read a body.
      if (underWay.isHeld) socket.pause();
      else call(resumes);
    });
  }

  /** Calls `run` when the earlier requests of the connection have their answers; never when the connection takes no answer by then. */
  add(request: IncomingMessage, response: ServerResponse, run: () => void): void {
    const { socket } = request;
    const underWay = this.#of(socket);
    const { answers } = underWay;
    const last = answers.size === 0 ? undefined : underWay.last;
    underWay.last = response;
    answers.add(response);
    response.on('close', () => {
      answers.delete(response);
      readOn(underWay, socket);
    });
    if (last) this.#wait(underWay, last, socket, run);
    else run();
  }

  #wait(underWay: UnderWay, last: ServerResponse, socket: Socket, run: () => void): void {
    if (!this.#waiting.allows(underWay.holder)) return void socket.destroy();
    this.#waiting.take(underWay.holder);
    // Also when the connection ends.
    last.once('close', () => {
      this.#waiting.giveBack(underWay.holder);
      // Other connections have their turn first.
      setImmediate(() => {
        // Not writable also after an answer with `Connection: close`.
        if (socket.writable) run();
      });
    });
  }

  #of(socket: Socket): UnderWay {
    const before = this.#bySocket.get(socket);
    if (before) return before;
    const holder = { tenantId: '', applicationId: addressGroup(socket.remoteAddress) };
    const underWay = {
      holder,
      answers: new Set<ServerResponse>(),
      last: undefined,
      isHeld: false,
    };
    this.#bySocket.set(socket, underWay);
    return underWay;
  }

  /** Resolves when every request that arrived completely on this connection has its answer. */
  async ended(socket: Duplex): Promise<void> {
    // A request with a malformed body gets the refusal as its only answer.
    const answers = [...(this.#bySocket.get(socket)?.answers ?? [])].filter(({ req }) => req.complete);
    await Promise.all(answers.map((each) => new Promise<void>((resolve) => each.once('close', resolve))));
  }
}

type Listeners = ReturnType<Socket['listeners']> | undefined;

function hold(underWay: UnderWay, socket: Socket): void {
  underWay.isHeld = true;
  socket.pause();
}

/** Reads a held connection again in the next turn of the event loop, if few of its requests wait. */
function readOn(underWay: UnderWay, socket: Socket): void {
  if (!underWay.isHeld) return;
  setImmediate(() => {
    if (!underWay.isHeld || underWay.answers.size > mostWaiting) return;
    underWay.isHeld = false;
    // Node has paused the connection as well, and resumes it when a handler reads the body.
    const request = underWay.last?.req;
    const isFull = request && !request.complete && request.readableLength >= request.readableHighWaterMark;
    if (!isFull) socket.resume();
  });
}
