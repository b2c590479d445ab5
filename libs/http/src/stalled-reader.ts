import type { ServerResponse } from 'node:http';

const stalledReaderMs = 30_000;

/**
 * Disconnects a client that takes no byte of a streamed answer for this time. While there is nothing to take, the client waits for the server
 * that the answer comes from, which has limits of its own.
 */
export function cutOffStalledReader(response: ServerResponse, ms = stalledReaderMs): void {
  // Node starts the timer again with each write, also when it has fired.
  response.setTimeout(ms, () => {
    if (response.writableLength > 0) response.destroy();
  });
}
