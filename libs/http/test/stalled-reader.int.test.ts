import { waitUntil } from '@token-vault/test-support';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { listen, type RunningServer } from '../src/index.ts';
import { cutOffStalledReader } from '../src/stalled-reader.ts';

const limitMs = 100;
let server: RunningServer;
afterEach(() => server.stop(0));

/** An answer that has begun, and the connection of its reader. */
async function beginAnswer(): Promise<{ response: ServerResponse; reader: Socket }> {
  const begun = Promise.withResolvers<ServerResponse>();
  server = await listen(
    (_request, response) => {
      cutOffStalledReader(response, limitMs);
      response.setHeader('Connection', 'close').write('begun');
      begun.resolve(response);
    },
    { host: '127.0.0.1', port: 0 },
  );
  const reader = connect(server.port, '127.0.0.1');
  await once(reader, 'connect');
  reader.write('GET / HTTP/1.1\r\nHost: vault\r\n\r\n');
  return { response: await begun.promise, reader };
}

/** Longer than the limit. */
const pause = () => delay(2 * limitMs);

describe('a reader of a streamed answer', () => {
  it('that has nothing to take is not cut off, however long the answer pauses', async () => {
    const { response, reader } = await beginAnswer();
    const received = text(reader);
    await pause();
    response.write('-goes on-');
    await pause();
    response.end('ended');
    expect(await received).toMatch(/begun[^]*-goes on-[^]*ended/);
  });

  it('that takes nothing of what is there is cut off, also after a pause', async () => {
    const { response, reader } = await beginAnswer();
    reader.pause();
    await pause();
    const isCut = once(response, 'close');
    response.write(Buffer.alloc(32 * 1024 * 1024));
    await isCut;
    expect(response.writableFinished).toBe(false);
    reader.on('error', () => undefined).resume();
    await waitUntil(() => reader.closed, { what: 'the end of the connection' });
  });

  it('that takes nothing is cut off although it goes on sending', async () => {
    const { response, reader } = await beginAnswer();
    reader.pause().on('error', () => undefined);
    const sending = setInterval(() => reader.write('\r\n'), limitMs / 10);
    const isCut = once(response, 'close');
    response.write(Buffer.alloc(32 * 1024 * 1024));
    await isCut;
    clearInterval(sending);
    expect(response.writableFinished).toBe(false);
    reader.destroy();
  });
});
