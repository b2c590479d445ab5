import type { ServerResponse } from 'node:http';

const stalledReaderMs = 30_000;
const parts = 6;

/**
 * Disconnects a client that takes no byte of an answer for this time, and a sixth of it later at most. While there is nothing to take, the client
 * waits for the server that the answer comes from, which has limits of its own. A single time-out of Node takes up to twice its time: it starts
 * again without an event when the system has taken bytes since Node looked last.
 */
export function cutOffStalledReader(response: ServerResponse, ms = stalledReaderMs): void {
  const partMs = ms / parts;
  let stalledParts = 0;
  let last = { atMs: -Infinity, bytes: -1 };
  response.setTimeout(partMs, () => {
    const now = { atMs: performance.now(), bytes: response.socket?.bytesWritten ?? 0 };
    const isAsBefore = now.bytes === last.bytes && now.atMs - last.atMs < 2 * partMs;
    if (response.writableLength === 0) stalledParts = 0;
    else stalledParts = isAsBefore ? stalledParts + 1 : 1;
    last = now;
    if (stalledParts >= parts) response.destroy();
    else response.setTimeout(partMs);
  });
  // The next request of the connection may be answered late. Node's own listener sets the time that the connection may be idle.
  response.prependOnceListener('finish', () => response.socket?.setTimeout(0));
}
