import {
  cardToken,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

interface Made {
  readonly id: string;
  readonly key: string;
}

let dataDir: string;
let vault: StandaloneProcess;
let key: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
});
beforeEach(async () => {
  vault = await startStandaloneProcess({ dataDir });
  const { body } = await vault
    .client()
    .expect<Made>(201, 'POST', '/applications', { body: plainApplication() });
  key = body.key;
});
afterAll(() => removeDataDirectory(dataDir));

async function connected(): Promise<Socket> {
  const socket = connect(Number(new URL(vault.url).port), '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** Sends a request without the end of its body. Gives the function that sends the end. */
async function halfSent(socket: Socket, id: string): Promise<() => void> {
  const body = JSON.stringify(cardToken(undefined, { id }));
  const head = [
    'POST /tokens HTTP/1.1',
    'Host: localhost',
    `SVC-API-KEY: ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    '',
    body.slice(0, 20),
  ];
  socket.write(head.join('\r\n'));
  return () => void socket.write(body.slice(20));
}

describe.each(['SIGTERM', 'SIGINT'] as const)('a vault that gets %s', (signal) => {
  it('finishes the requests under way and accepts no others', async () => {
    const slow = await Promise.all([connected(), connected(), connected()]);
    const ends = await Promise.all(slow.map((socket, index) => halfSent(socket, `${signal}-${index}`)));
    // This answer comes after the requests above have arrived: one event loop reads all sockets.
    await vault.client(key).expect(200, 'GET', '/tokens?size=1');

    const exit = vault.stop(signal);
    await waitUntil(() => vault.output().includes('stopping'));
    // Sent twice, as from a terminal. The second signal interrupts nothing.
    vault.signal(signal);
    await waitUntil(() =>
      connected().then(
        (socket) => void socket.destroy(),
        () => true,
      ),
    );
    for (const end of ends) end();
    for (const socket of slow) expect(await text(socket)).toMatch(/^HTTP\/1\.1 201 /);
    expect(await exit).toEqual({ code: 0, signal: null });
    expect(vault.errors()).toBe('');

    vault = await startStandaloneProcess({ dataDir });
    for (const index of slow.keys()) await vault.client(key).expect(200, 'GET', `/tokens/${signal}-${index}`);
    await vault.stop();
  });

  it('loses no write that it has acknowledged under load', async () => {
    const acknowledged: string[] = [];
    const surprises: unknown[] = [];
    let isOver = false;
    const backend = vault.client(key);
    const writers = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        const answer = await backend
          .request<Made>('POST', '/tokens', { body: cardToken() })
          .catch(() => undefined);
        if (answer?.status === 201) acknowledged.push(answer.body.id);
        else if (answer) surprises.push(answer);
        else return;
      }
    });
    await waitUntil(() => acknowledged.length > 100, { timeoutMs: 30_000 });
    const exit = await vault.stop(signal);
    isOver = true;
    await Promise.all(writers);
    expect(exit).toEqual({ code: 0, signal: null });
    expect(surprises).toEqual([]);

    vault = await startStandaloneProcess({ dataDir });
    const found = await Promise.all(
      acknowledged.map((id) => vault.client(key).request('GET', `/tokens/${id}`)),
    );
    expect(found.filter(({ status }) => status !== 200)).toEqual([]);
    await vault.stop();
  });
});
