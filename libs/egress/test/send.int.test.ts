import { execFileSync } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer, type AddressInfo, type Server } from 'node:net';
import { gzipSync } from 'node:zlib';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, describe, expect, it } from 'vitest';
import {
  createEgressBroker,
  EgressError,
  type EgressBrokerOptions,
  type EgressSending,
} from '../src/index.ts';

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

async function listening(server: Server, close: () => void = () => undefined): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    close();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function serve(listener: Listener): Promise<string> {
  const server = createServer(listener);
  return listening(server, () => server.closeAllConnections());
}

function sending(options: EgressBrokerOptions = {}) {
  const broker = createEgressBroker({ allowCidrs: ['127.0.0.1/32'], ...options });
  cleanups.push(() => broker.close());
  return (request: Partial<EgressSending> & { readonly url: string }) =>
    broker.send({ tenantId: 'a', signal: new AbortController().signal, ...request });
}

const codeOf = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'no error',
    (error: unknown) => (error instanceof EgressError ? error.code : `no EgressError: ${String(error)}`),
  );

async function bytesOf(body: AsyncIterable<unknown>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

describe('an answer that is passed on', () => {
  it('is not changed: redirects, compressed bodies, bytes of headers', async () => {
    const packed = gzipSync('packed');
    const url = await serve((_request, response) => {
      response.writeHead(302, { location: 'http://10.0.0.1/', 'content-encoding': 'gzip', 'x-latin': 'é' });
      response.end(packed);
    });
    const { status, headers, body } = await sending()({ url });
    expect([status, (await bytesOf(body)).equals(packed)]).toEqual([302, true]);
    expect(Object.fromEntries(headers)).toMatchObject({
      location: 'http://10.0.0.1/',
      'content-encoding': 'gzip',
      'x-latin': 'é',
    });
  });

  it('is read no faster than its reader reads', async () => {
    let written = 0;
    const url = await serve((_request, response) => {
      const more = () => {
        do written += 65_536;
        while (response.write(Buffer.alloc(65_536)));
        response.once('drain', more);
      };
      more();
    });
    const { body } = await sending({ maxResponseBytes: 2 ** 30 })({ url });
    await waitUntil(() => Promise.resolve(written > 0), { what: 'the first bytes' });
    let before = -1;
    await waitUntil(
      async () => {
        const isStill = before === written;
        before = written;
        // Node has no event for a server that waits for its reader. A server that has written nothing for 200 ms waits.
        await new Promise((resolve) => setTimeout(resolve, 200));
        return isStill && before === written;
      },
      { what: 'the server to wait' },
    );
    expect(written).toBeLessThan(32 * 1024 * 1024);
    body.destroy();
  });

  it('is refused when its length is too large, and cut when its body is too large', async () => {
    const said = await serve((_request, response) => void response.end(Buffer.alloc(11)));
    const send = sending({ maxResponseBytes: 10 });
    expect(await codeOf(send({ url: said }))).toBe('response-too-large');
    const unsaid = await serve((_request, response) => {
      response.write(Buffer.alloc(6));
      response.end(Buffer.alloc(6));
    });
    expect(await codeOf(send({ url: unsaid }).then(({ body }) => bytesOf(body)))).toBe('response-too-large');
  });

  it('releases the connection when it is not read', async () => {
    let isClosed = false;
    const url = await serve((_request, response) => {
      response.on('close', () => (isClosed = true)).write('begun');
    });
    const { body } = await sending()({ url });
    body.destroy();
    await waitUntil(() => Promise.resolve(isClosed), { what: 'the end of the connection' });
  });
});

describe('a destination', () => {
  it('that sends nothing in time is timed out, before its head and within its body', async () => {
    const send = sending({ answerTimeoutMs: 300 });
    expect(await codeOf(send({ url: await serve(() => undefined) }))).toBe('timeout');
    const stalling = await serve((_request, response) => void response.write('begun'));
    expect(await codeOf(send({ url: stalling }).then(({ body }) => bytesOf(body)))).toBe('timeout');
  });

  it('that sends slowly is cut after the time of a whole exchange', async () => {
    const url = await serve((_request, response) => {
      const timer = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const send = sending({ timeoutMs: 400 });
    expect(await codeOf(send({ url }).then(({ body }) => bytesOf(body)))).toBe('timeout');
  });

  it('that is cut off, or is not HTTP, has failed', async () => {
    const breaking = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('half', () => response.destroy());
    });
    const send = sending();
    expect(await codeOf(send({ url: breaking }).then(({ body }) => bytesOf(body)))).toBe('network');
    const other = await listening(createTcpServer((socket) => void socket.end('SSH-2.0-x\r\n')));
    expect(await codeOf(send({ url: other }))).toBe('network');
  });

  it('that shows the certificate of another host has failed, and gets no request', async () => {
    const making = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    const name = ['-days', '2', '-subj', '/CN=other', '-addext', 'subjectAltName=DNS:other.test'];
    const files = ['-keyout', '-'];
    const pem = execFileSync('openssl', [...making, ...name, ...files], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const arrived: unknown[] = [];
    const server = createTlsServer({ key: pem, cert: pem }, ({ headers }, response) => {
      arrived.push(headers.host);
      response.end();
    });
    const { port } = new URL(await listening(server, () => server.closeAllConnections()));
    const send = sending({ ca: pem.toString(), resolve: () => Promise.resolve(['127.0.0.1']) });
    expect(await codeOf(send({ url: `https://named.test:${port}/` }))).toBe('network');
    await bytesOf((await send({ url: `https://other.test:${port}/` })).body);
    expect(arrived).toEqual([`other.test:${port}`]);
  });

  it('is disconnected when the caller disconnects, before the head and within the body', async () => {
    const abort = new AbortController();
    const silent = sending()({ url: await serve(() => undefined), signal: abort.signal });
    const stalled = await sending()({
      url: await serve((_request, response) => void response.write('begun')),
      signal: abort.signal,
    });
    const read = codeOf(bytesOf(stalled.body));
    abort.abort();
    expect([await codeOf(silent), await read]).toEqual(['aborted', 'aborted']);
  });

  it('that is still being looked up is given up when the caller disconnects or the time is over, and gets nothing later', async () => {
    const arrived: string[] = [];
    const url = await serve((request, response) => {
      arrived.push(request.url ?? '');
      response.end();
    });
    const named = url.replace('127.0.0.1', 'slow.test');
    const found = Promise.withResolvers<readonly string[]>();
    const send = sending({ resolve: () => found.promise, timeoutMs: 200 });
    const abort = new AbortController();
    const left = codeOf(send({ url: named, signal: abort.signal }));
    abort.abort();
    expect(await left).toBe('aborted');
    expect(await codeOf(send({ url: named }))).toBe('timeout');
    found.resolve(['127.0.0.1']);
    const { body } = await send({ url: `${named}third` });
    await bytesOf(body);
    expect(arrived).toEqual(['/third']);
  });

  it.each([
    'https://10.0.0.1/',
    'https://[::1]/',
    'https://169.254.169.254/',
    'https://localhost/',
    'https://0/',
  ])('%s is refused', async (url) => {
    expect(await codeOf(sending({ allowCidrs: [] })({ url }))).toBe('refused-address');
  });
});

it('sends no header of the connection, and frames the body again', async () => {
  let seen: readonly string[] = [];
  const url = await serve((request, response) => {
    seen = request.rawHeaders;
    request.resume().on('end', () => response.end());
  });
  const headers = [
    ['Transfer-Encoding', 'chunked'],
    ['Content-Length', '3'],
    ['Connection', 'upgrade'],
    ['Upgrade', 'h2c'],
    ['Host', 'elsewhere'],
    ['TE', 'trailers'],
    ['Expect', '100-continue'],
    ['Accept-Encoding', 'br'],
  ] as const;
  const { body } = await sending()({ url, method: 'POST', headers, body: Buffer.from('four') });
  await bytesOf(body);
  const names = seen.filter((_text, index) => index % 2 === 0).map((name) => name.toLowerCase());
  expect(names.sort()).toEqual(['accept-encoding', 'connection', 'content-length', 'host']);
  expect(seen[seen.findIndex((text) => text.toLowerCase() === 'content-length') + 1]).toBe('4');
});

describe('a request that must be permitted', () => {
  const elapsed = (ms: number) => {
    const sinceMs = performance.now();
    return waitUntil(() => performance.now() - sinceMs > ms, { what: 'the time' });
  };

  it('is checked again when its connection took long, and is sent once', async () => {
    const arrived: string[] = [];
    const url = await serve((request, response) => {
      arrived.push(request.url ?? '');
      response.end('ok');
    });
    let permits = 0;
    const permit = async () => void (permits += 1);
    const resolve = async () => {
      await elapsed(150);
      return ['127.0.0.1'];
    };
    const named = url.replace('127.0.0.1', 'slow.test');
    const { body } = await sending({ resolve })({ url: named, permit });
    expect((await bytesOf(body)).toString()).toBe('ok');
    expect([permits, arrived]).toEqual([2, ['/']]);
  });

  it('is not sent when the second check refuses it, and fails with that error', async () => {
    const arrived: string[] = [];
    const url = await serve((request, response) => {
      arrived.push(request.url ?? '');
      response.end('ok');
    });
    let permits = 0;
    const permit = async () => {
      permits += 1;
      if (permits > 1) throw new TypeError('withdrawn');
    };
    const resolve = async () => {
      await elapsed(150);
      return ['127.0.0.1'];
    };
    const sent = sending({ resolve })({ url: url.replace('127.0.0.1', 'slow.test'), permit });
    await expect(sent).rejects.toThrow(new TypeError('withdrawn'));
    expect([permits, arrived]).toEqual([2, []]);
  });
});
