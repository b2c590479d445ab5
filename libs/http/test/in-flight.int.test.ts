import { ThreadShares, type Holder, type Turn } from '@token-vault/batching';
import { waitUntil } from '@token-vault/test-support';
import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { InFlightBytes } from '../src/in-flight.ts';
import { createMetrics } from '@token-vault/observability';
import { listen, mountMetrics, type RunningServer } from '../src/index.ts';
import express from 'express';

let server: RunningServer;
afterEach(() => server.stop(0));

const large = Buffer.alloc(32 * 1024 * 1024, 'x');

async function ask(path = '/'): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(`GET ${path} HTTP/1.1\r\nHost: vault\r\n\r\n`);
  return socket;
}

describe('an answer', () => {
  it('that is not read counts, has bodies refused, and is cut', async () => {
    const inFlight = new InFlightBytes(large.length + 1000, 300);
    server = await listen(
      (_request, response) => {
        response.setHeader('Content-Length', large.length);
        inFlight.send(response, large);
      },
      { host: '127.0.0.1', port: 0 },
    );
    const socket = await ask();
    socket.pause();
    const closed = once(socket, 'close');
    await waitUntil(() => inFlight.held > 0);
    expect(inFlight.admits(large.length, new ServerResponse(new IncomingMessage(new Socket())))).toBe(false);
    await waitUntil(() => inFlight.held === 0);
    socket.on('error', () => undefined).resume();
    await closed;
  });

  it('that is read slowly is not cut', async () => {
    const inFlight = new InFlightBytes(large.length, 300);
    server = await listen(
      (_request, response) => {
        response.setHeader('Content-Length', large.length).setHeader('Connection', 'close');
        inFlight.send(response, large);
      },
      { host: '127.0.0.1', port: 0 },
    );
    const socket = await ask();
    let received = 0;
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      received += chunk.length;
      // Slower than the limit in total, but never between two reads.
      if (received % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(received).toBeGreaterThan(large.length);
    expect(inFlight.held).toBe(0);
  });
});

describe('the metrics', () => {
  /** The scrapes that wait for their turn. */
  let waiting: { readonly share: Holder; readonly start: () => void }[];
  const shares = {
    begin: (share: Holder) =>
      new Promise<Turn>((resolve) => waiting.push({ share, start: () => resolve(anyTurn) })),
  };
  const anyTurn: Turn = { isOver: false, next: () => Promise.resolve(), end: () => undefined };

  /** The sockets of scrapers whose end the server has noticed. */
  let gone = 0;

  let nowMs: number;

  async function serve(by: Pick<ThreadShares, 'begin'> = shares): Promise<void> {
    waiting = [];
    gone = 0;
    nowMs = 0;
    const metrics = createMetrics('test');
    let computed = 0;
    const registry = { contentType: 'text/plain', metrics: async () => `computed ${(computed += 1)}` };
    const app = express();
    app.use(({ socket }, _response, next) => {
      socket.once('close', () => (gone += 1));
      next();
    });
    mountMetrics(app, { ...metrics, registry: registry as never }, { shares: by, nowMs: () => nowMs });
    server = await listen(app, { host: '127.0.0.1', port: 0 });
  }

  const scrape = async () => (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text();

  it('are computed once for concurrent requests', async () => {
    await serve();
    const texts = Array.from({ length: 20 }, scrape);
    await waitUntil(() => waiting.length === 20);
    for (const { start } of waiting) start();
    expect(new Set(await Promise.all(texts))).toEqual(new Set(['computed 1']));
  });

  it('are computed at most once a second for scrapes one after the other', async () => {
    await serve({ begin: () => Promise.resolve(anyTurn) });
    const texts = [];
    for (const ms of [0, 1, 999, 1_000, 1_999, 2_500]) {
      nowMs = ms;
      texts.push(await scrape());
    }
    const [first, second, third] = ['computed 1', 'computed 2', 'computed 3'];
    expect(texts).toEqual([first, first, first, second, second, third]);
  });

  it('are answered to all scrapers within one share of the thread', async () => {
    await serve();
    let answered = 0;
    const texts = Array.from({ length: 3 }, () => scrape().finally(() => (answered += 1)));
    await waitUntil(() => waiting.length === 3);
    expect(new Set(waiting.map(({ share }) => share)).size).toBe(1);
    expect(answered).toBe(0);
    waiting[0]?.start();
    await Promise.any(texts);
    expect(answered).toBe(1);
    for (const { start } of waiting) start();
    await Promise.all(texts);
  });

  it('are answered although scrapers before have left, which take nothing of the share', async () => {
    const real = new ThreadShares(() => 0);
    let begun = 0;
    const taken: unknown[] = [];
    await serve({
      async begin(share) {
        begun += 1;
        const turn = await real.begin(share);
        const end: Turn['end'] = (following) => {
          taken.push(following);
          turn.end(following);
        };
        return { isOver: false, next: () => turn.next(), end };
      },
    });
    const first = await real.begin({ tenantId: 'scrapers', applicationId: 'scrapers' });
    const leaving = [await ask('/metrics'), await ask('/metrics'), await ask('/metrics')];
    await waitUntil(() => begun === 3);
    for (const socket of leaving) socket.destroy();
    await waitUntil(() => gone === 3);
    const text = scrape();
    await waitUntil(() => begun === 4);
    first.end();
    expect(await text).toBe('computed 1');
    expect(taken).toEqual([undefined, undefined, undefined, { ms: expect.any(Number) as number }]);
  });
});
