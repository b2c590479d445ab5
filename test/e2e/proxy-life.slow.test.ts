import type { Application, LogEntry, Proxy, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  forbiddenUrls,
  printed,
  removeDataDirectory,
  runCommand,
  type StandaloneProcess,
  startStandaloneProcess,
  unfitUrls,
  waitUntil,
} from '@token-vault/test-support';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startDestination, type Destination } from './destination.ts';

const number = cardNumber();

let dataDir: string;
let destination: Destination;
let usual: Destination['answer'];
let vault: StandaloneProcess;
/** The management key of a tenant whose plan lets it send anywhere. */
let managementKey: string;
let manager: Client;
let key: string;
let callerId: string;
let card: string;

const start = async (): Promise<void> => {
  const env = { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile };
  vault = await startStandaloneProcess({ dataDir, env });
  manager = vault.client(managementKey);
};
async function newCaller(): Promise<{ id: string; key: string }> {
  const body = { name: 'c', type: 'private', permissions: ['token:create', 'token:use'] };
  const { id, key: made = '' } = (await manager.expect<Application>(201, 'POST', '/applications', { body }))
    .body;
  return { id, key: made };
}
const messagesOf = async (trace: string): Promise<readonly string[]> => {
  const { body } = await manager.expect<{ data: LogEntry[] }>(200, 'GET', `/logs?trace_id=${trace}&size=100`);
  return body.data.map(({ message }) => message).reverse();
};
const proxied = (trace: string, to: string, path = '/proxy') =>
  fetch(`${vault.url}${path}`, {
    method: 'POST',
    headers: {
      'SVC-API-KEY': key,
      'SVC-PROXY-URL': to,
      'SVC-TRACE-ID': trace,
      'Content-Type': 'text/plain',
    },
    body: `{{ ${card} | json: '$.number' }}`,
  });
const newProxy = (to: string) =>
  manager.request<Proxy>('POST', '/proxies', { body: { name: 'p', destination: to } });
/** Sends a request through a configured proxy whose destination is the origin of `to`. */
async function configured(trace: string, to: string): Promise<Response> {
  const { origin, pathname } = new URL(to);
  const { id } = (await newProxy(origin)).body;
  return proxied(trace, to, `/proxies/${id}/invoke${pathname}`);
}

beforeAll(async () => {
  destination = await startDestination();
  usual = destination.answer;
  dataDir = await createDataDirectory();
  await start();
  const made = await runCommand(dataDir, ['tenants', 'create', 'sender', '--plan', 'standard']);
  managementKey = printed(made.stdout, 'management key');
  manager = vault.client(managementKey);
  ({ id: callerId, key } = await newCaller());
  const body = cardToken(number);
  card = (await manager.withKey(key).expect<Token>(201, 'POST', '/tokens', { body })).body.id;
});
afterAll(async () => {
  await destination.close();
  await removeDataDirectory(dataDir);
});
beforeEach(() => {
  destination.arrived.length = 0;
  destination.answer = usual;
});

const sockets: Socket[] = [];
afterEach(() => sockets.splice(0).forEach((socket) => socket.destroy()));

/** The answers of the vault to bytes, until it closes the connection or has answered `count` times. */
async function raw(lines: readonly string[], count = 1): Promise<string> {
  const { port } = new URL(vault.url);
  const socket = connect(Number(port), '127.0.0.1');
  sockets.push(socket);
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk.toString('latin1'))).on('error', () => undefined);
  const closed = once(socket, 'close');
  socket.write(lines.join('\r\n'), 'latin1');
  const isAnswered = () => Promise.resolve(socket.closed || answer.split('HTTP/1.1 ').length > count);
  await waitUntil(isAnswered, { what: 'an answer' });
  socket.end();
  await closed;
  return answer;
}
const head = (...more: string[]): string[] => [
  'POST /proxy HTTP/1.1',
  'Host: vault',
  `SVC-API-KEY: ${key}`,
  `SVC-PROXY-URL: ${destination.url}/charge`,
  'Content-Type: text/plain',
  ...more,
];
const hidden = 'GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n';

describe('a request whose framing is ambiguous', () => {
  it.each([
    ['a length and chunks', ['Content-Length: 5', 'Transfer-Encoding: chunked', '', '0', '', hidden]],
    ['two lengths', ['Content-Length: 5', 'Content-Length: 40', '', `hello${hidden}`]],
    ['a length that is a list', ['Content-Length: 5, 40', '', `hello${hidden}`]],
    ['a length with a sign', ['Content-Length: +5', '', `hello${hidden}`]],
    ['chunks that are not last', ['Transfer-Encoding: chunked, identity', '', '0', '', hidden]],
    ['an unknown coding', ['Transfer-Encoding: xchunked', '', '0', '', hidden]],
    ['a space before the colon', ['Transfer-Encoding : chunked', '', '0', '', hidden]],
    ['a folded line', ['X-A: b', ' Transfer-Encoding: chunked', '', '0', '', hidden]],
    ['a bare line feed', ['X-A: b\nTransfer-Encoding: chunked', '', '0', '', hidden]],
    ['a chunk with a wrong size', ['Transfer-Encoding: chunked', '', '3', 'hello', '0', '', hidden]],
  ])('with %s brings nothing hidden to the destination', async (_name, lines) => {
    const answer = await raw(head(...lines));
    const urls = destination.arrived.map(({ url }) => url);
    expect(urls.filter((url) => url !== '/charge')).toEqual([]);
    expect(urls.length).toBeLessThanOrEqual(1);
    expect(answer).toMatch(/^(HTTP\/1\.1 4\d\d |HTTP\/1\.1 200 |$)/);
    for (const { body, rawHeaders } of destination.arrived) {
      expect(body.toString()).not.toContain('hidden');
      expect(rawHeaders.join().toLowerCase()).not.toContain('transfer-encoding');
    }
  });

  it('is answered, and the next request on the connection is handled by the vault, not by the destination', async () => {
    const second = `GET /tokens/none HTTP/1.1\r\nHost: vault\r\nSVC-API-KEY: ${key}\r\n\r\n`;
    const answer = await raw(head('Transfer-Encoding: chunked', '', '5', 'hello', '0', '', second), 2);
    expect(destination.arrived.map(({ url, body }) => [url, body.toString()])).toEqual([
      ['/charge', 'hello'],
    ]);
    expect([...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(['200', '403']);
  });

  it('does not pass on headers of its connection, also those named by Connection', async () => {
    const lines = ['Connection: close, X-Hop', 'X-Hop: 1', 'TE: trailers', 'Trailer: X-T', 'Keep-Alive: 5'];
    const answer = await raw(
      head(...lines, 'Upgrade: h2c', 'Expect: 100-continue', 'Content-Length: 2', '', 'hi'),
      2,
    );
    expect(answer).toContain(' 200 ');
    const names = Object.keys(destination.arrived[0]?.headers ?? {});
    expect(
      names.filter((name) => /^(x-hop|te|trailer|keep-alive|upgrade|expect|transfer-encoding)$/.test(name)),
    ).toEqual([]);
  });
});

describe('the corpus of private places', () => {
  /** The operator allows requests to 127.0.0.1, where the destination of this test is. Nothing listens at port 443 there. */
  const isOpened = (to: string) =>
    /\/(127\.0\.0\.1|2130706433|0177\.0\.0\.1|0x7f\.1|127\.1|localhost|\[::ffff:[\w.:]+\])\/$/.test(to);

  it.each([...forbiddenUrls, ...unfitUrls.map(([url]) => url)])('%s is refused', async (to) => {
    const trace = 'corpus';
    const answer = await raw([
      ...head('Connection: close', `SVC-TRACE-ID: ${trace}`, 'Content-Length: 0')
        .filter((line) => !line.startsWith('SVC-PROXY-URL'))
        .concat(`SVC-PROXY-URL: ${Buffer.from(to, 'utf8').toString('latin1')}`),
      '',
      '',
    ]);
    const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
    expect(isOpened(to) ? [502, 403] : [400, 403]).toContain(status);
    expect(answer.toLowerCase()).not.toContain('svc-proxy-status');
  });

  it.each([...forbiddenUrls, ...unfitUrls.map(([url]) => url)])(
    '%s is refused as the destination of a configured proxy, when it is made or when it is used',
    async (to) => {
      const made = await newProxy(to);
      const { id } = made.body;
      const headers = { 'Content-Type': 'text/plain' };
      const answer =
        made.status === 201
          ? await manager.withKey(key).request('POST', `/proxies/${id}/invoke`, { text: 'x', headers })
          : made;
      expect(isOpened(to) ? [502, 403] : [400, 403]).toContain(answer.status);
      expect(answer.headers.has('svc-proxy-status')).toBe(false);
    },
  );
});

describe('a caller that loses its right while the body arrives', () => {
  it('is refused, and nothing is sent', async () => {
    const caller = await newCaller();
    const { port } = new URL(vault.url);
    const socket = connect(Number(port), '127.0.0.1');
    sockets.push(socket);
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    const lines = head('Content-Length: 20', '', '0123456789').join('\r\n').replace(key, caller.key);
    socket.write(lines);
    await manager.expect(204, 'DELETE', `/applications/${caller.id}`);
    socket.write('0123456789');
    await waitUntil(() => Promise.resolve(answer !== ''), { what: 'the answer' });
    expect(answer).toMatch(/^HTTP\/1\.1 40[13] /);
    expect(destination.arrived).toEqual([]);
    expect(callerId).not.toBe(caller.id);
  });
});

describe('a stopping vault', () => {
  it('completes the requests under way after SIGTERM, and records them', async () => {
    const held: ServerResponse[] = [];
    destination.answer = (_request, response) => void held.push(response);
    const asked = proxied('drained', `${destination.url}/slow`);
    await waitUntil(() => Promise.resolve(held.length === 1), { what: 'the request' });
    const ended = vault.stop();
    const isClosing = () =>
      fetch(`${vault.url}/health/ready`).then(
        ({ ok }) => !ok,
        () => true,
      );
    await waitUntil(isClosing, { what: 'the end of new requests' });
    held[0]?.end('late');
    const answer = await asked;
    expect([answer.status, await answer.text()]).toEqual([200, 'late']);
    expect(await ended).toMatchObject({ code: 0 });
    await start();
    expect(await messagesOf('drained')).toEqual([
      `Proxy invoked: POST ${destination.url}`,
      'Token used',
      'Proxy answered 200',
    ]);
  });

  it.each([
    ['that names its destination', 'killed', proxied],
    ['of a configured proxy', 'killed-configured', configured],
  ])('between record and sending a request %s has recorded and not sent', async (_what, trace, send) => {
    // The server accepts connections and never answers in TLS: the request is recorded, and cannot be sent.
    const heard: Buffer[] = [];
    const silent = createServer((socket) => {
      sockets.push(socket);
      socket.on('data', (chunk: Buffer) => heard.push(chunk)).on('error', () => undefined);
    });
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const to = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    try {
      const asked = send(trace, `${to}/charge`).catch(() => 'cut');
      await waitUntil(() => Promise.resolve(heard.length > 0), { what: 'the connection' });
      await vault.kill();
      expect(await asked).toBe('cut');
      await start();
      expect(await messagesOf(trace)).toEqual([`Proxy invoked: POST ${to}`, 'Token used']);
      const bytes = Buffer.concat(heard).toString('latin1');
      expect(bytes.charCodeAt(0)).toBe(0x16);
      expect(bytes).not.toMatch(new RegExp(`${number}|charge`));
    } finally {
      silent.close();
    }
  });
});
