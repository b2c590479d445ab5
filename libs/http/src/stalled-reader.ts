import type { ServerResponse } from 'node:http';

const stalledReaderMs = 30_000;
const looks = 6;

/**
 * Disconnects a client that takes no byte of an answer for this time, and a sixth of it later at most. While there is nothing to take, the client
 * waits for the server that the answer comes from, which has limits of its own. It has a timer of its own: the time-out of a socket of Node starts
 * again with each byte that the client sends.
 */
export function cutOffStalledReader(response: ServerResponse, ms = stalledReaderMs): void {
  let stalledLooks = 0;
  let before = '';
  const timer = setInterval(() => {
    const now = progressOf(response);
    const isStalled = response.writableLength > 0 && now === before;
    stalledLooks = isStalled ? stalledLooks + 1 : 0;
    before = now;
    if (stalledLooks >= looks) response.destroy();
  }, ms / looks).unref();
  // Comes after `finish`, too.
  response.once('close', () => clearInterval(timer));
}

interface Queue {
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/** Changes when more is written, or the system takes bytes. How much of one large write it has taken, Node tells by this property only. */
function progressOf({ socket }: ServerResponse): string {
  const { _handle: handle } = (socket ?? {}) as Queue;
  return `${socket?.bytesWritten} ${handle?.writeQueueSize}`;
}
