import { inFlight, listen, trustOf } from '@token-vault/http';
import { silentLogger } from '@token-vault/observability';
import { waitUntil } from '@token-vault/test-support';
import { request as requestOf, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startGateway } from '../src/index.ts';
import { createProxy } from '../src/proxy.ts';
import { createUpstreams } from '../src/upstreams.ts';
import { answer, startService, typeOf, useGateway, type Behaviour } from './gateway-of-fakes.ts';

const { gateway, command, query, proxy, send } = useGateway();

describe('an answer', () => {
  const get = (path = '/tokens') =>
    requestOf({ host: '127.0.0.1', port: gateway.port, path, headers: { 'SVC-API-KEY': 'key' } }).end();

  it.each(['Content-Length: 10\r\n\r\nhello', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'])(
    'that ends in the middle of its body is cut off for the client: %j',
    async (begun) => {
      query.behaviour = ({ socket }) => socket.end(`HTTP/1.1 200 OK\r\n${begun}`);
      const [response] = (await once(get(), 'response')) as [IncomingMessage];
      await expect(text(response)).rejects.toThrow('aborted');
    },
  );

  it('with which a service ends the connection of a client ends it here, too, when it is 429', async () => {
    const ending = (status: number) => {
      query.behaviour = (_request, respond) => respond(status, '', { Connection: 'close' });
      return send('GET', '/tokens/a', { 'SVC-API-KEY': 'key', Connection: 'keep-alive' });
    };
    expect((await ending(429)).headers.connection).toBe('close');
    expect((await ending(200)).headers.connection).toBe('keep-alive');
  });

  it('may have the 16 KB of headers that reactor code may set, beside those of the vault', async () => {
    const set = { 'X-Link': 'a'.repeat(16_376), 'SVC-TRACE-ID': 'a-trace', 'RateLimit-Policy': 'a-policy' };
    query.behaviour = (_request, respond) => respond(404, 'chosen', set);
    const sent = requestOf({
      host: '127.0.0.1',
      port: gateway.port,
      path: '/tokens',
      headers: { 'SVC-API-KEY': 'key' },
      maxHeaderSize: 32 * 1024,
    }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect([response.statusCode, response.headers['x-link']?.length]).toEqual([404, 16_376]);
    expect(await text(response)).toBe('chosen');
  });

  it('is aborted at the service when the client disconnects', async () => {
    const begun = Promise.withResolvers<Socket>();
    query.behaviour = ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello');
      begun.resolve(socket);
    };
    const sent = get();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    await once(response, 'data');
    const service = await begun.promise;
    const isClosed = new Promise<void>((resolve) => service.once('close', () => resolve()));
    sent.destroy();
    await isClosed;
  });

  const asked = 'GET /tokens HTTP/1.1\r\nHost: vault\r\nSVC-API-KEY: key\r\n\r\n';

  /** The port of a router that waits so long for a reader. */
  async function impatientRouter(stalledReaderMs: number): Promise<number> {
    const [ofCommand, ofQuery, ofProxy] = [command, query, proxy].map(({ url }) => createUpstreams([url]));
    const upstreams = { command: ofCommand!, query: ofQuery!, proxy: ofProxy! };
    const options = { upstreams, logger: silentLogger, trusts: trustOf(0), stalledReaderMs };
    const router = await listen(createProxy(options), { host: '127.0.0.1', port: 0 });
    onTestFinished(async () => {
      await router.stop(0);
      for (const each of Object.values(upstreams)) each.close();
    });
    return router.port;
  }

  it('that its client does not read is cut off, and ended at the service', async () => {
    const body = 'x'.repeat(32 * 1024 * 1024);
    const isEnded = new Promise<void>((resolve) => {
      query.behaviour = ({ socket }, respond) => {
        socket.once('close', () => resolve());
        respond(200, body);
      };
    });
    const socket = connect(await impatientRouter(300), '127.0.0.1').on('error', () => undefined);
    socket.pause().write(asked);
    await isEnded;
    let length = 0;
    const closed = once(socket, 'close');
    socket.on('data', (part: Buffer) => (length += part.length)).resume();
    await closed;
    expect(length).toBeLessThan(body.length);
  });

  it('that comes late is not cut off by the time of an answer before it on the connection', async () => {
    query.behaviour = (_request, respond) => {
      query.behaviour = (_next, respondLate) => void setTimeout(() => respondLate(200, 'late'), 300);
      respond(200, 'at once');
    };
    const socket = connect(await impatientRouter(60), '127.0.0.1');
    socket.write(asked + asked.replace('Host', 'Connection: close\r\nHost'));
    expect(await text(socket)).toMatch(/at once[^]*late/);
  });

  it('of many megabytes reaches a client that reads slowly', async () => {
    const body = 'x'.repeat(8 * 1024 * 1024);
    query.behaviour = (_request, respond) => respond(200, body);
    const [response] = (await once(get(), 'response')) as [IncomingMessage];
    let length = 0;
    for await (const part of response) {
      length += (part as Buffer).length;
      await setImmediate();
    }
    expect(length).toBe(body.length);
  });
});

describe('a service that does not answer a write', () => {
  it('whose connection breaks leaves the outcome unknown', async () => {
    command.behaviour = ({ socket }) => socket.destroy();
    const unknown = await send('POST', '/tokens', undefined, '{}');
    expect([unknown.status, typeOf(unknown)]).toEqual([502, 'urn:token-vault:problem:outcome-unknown']);
  });

  it('is reported to have done nothing when it cannot be reached', async () => {
    const { port } = command.url;
    command.server.closeAllConnections();
    await new Promise((resolve) => command.server.close(resolve));
    const refused = await send('POST', '/tokens', undefined, '{}');
    expect([refused.status, typeOf(refused)]).toEqual([503, 'urn:token-vault:problem:unavailable']);
    expect(refused.headers['retry-after']).toBe('1');
    await new Promise<void>((resolve) => command.server.listen(Number(port), '127.0.0.1', resolve));
  });
});

describe('a service that is starting', () => {
  const starting: Behaviour = (_request, respond) => respond(503, 'starting', { 'SVC-NOT-BEGUN': 'true' });

  it('gets no request while another one answers, not even a write', async () => {
    const other = await startService();
    const services = {
      commandServices: [command.url, other.url],
      queryServices: [query.url],
      proxies: [proxy.url],
    };
    const router = await startGateway(
      { host: '127.0.0.1', port: 0, logLevel: 'silent', ...services },
      silentLogger,
    );
    command.behaviour = starting;
    const write = () => send('POST', '/tokens', undefined, '{"a":1}', router.port);
    const answers = [await write(), await write(), await write()];
    await router.close();
    other.server.closeAllConnections();
    other.server.close();
    expect(answers.map(({ status, body }) => [status, body])).toEqual(answers.map(() => [200, 'answered']));
    expect(command.seen.length).toBeGreaterThan(0);
    expect(other.seen).toEqual(answers.map(() => 'POST /tokens'));
  });

  it('is reported to have done nothing when it is alone', async () => {
    command.behaviour = starting;
    const refused = await send('POST', '/tokens', undefined, '{}');
    expect([refused.status, typeOf(refused)]).toEqual([503, 'urn:token-vault:problem:unavailable']);
    expect(refused.headers).not.toHaveProperty('svc-not-begun');
  });

  it('is not believed when it answers for another server: a request was sent there', async () => {
    proxy.behaviour = starting;
    const passedOn = await send('POST', '/proxy', { 'SVC-API-KEY': 'key' }, '{}');
    expect([passedOn.status, passedOn.body]).toEqual([503, 'starting']);
    expect(proxy.seen).toHaveLength(1);
  });
});

describe('bodies that many clients send at once', () => {
  const megabyte = 1024 * 1024;
  const headersOf = (key: string) => ({ 'SVC-API-KEY': key });

  /** Sends all but the last byte of a body. The router either waits for it or refuses it. */
  function stall(key: string, size = megabyte): void {
    const headers = { ...headersOf(key), 'Content-Length': String(size) };
    const sent = requestOf({
      host: '127.0.0.1',
      port: gateway.port,
      method: 'POST',
      path: '/tokens',
      headers,
    });
    sent.on('error', () => undefined).write('x'.repeat(size - 1));
    onTestFinished(() => void sent.destroy());
  }

  it('are limited for each key, and accepted again when the others have ended', async () => {
    let release: (() => void)[] = [];
    command.behaviour = (request, respond) => {
      release.push(() => respond(200, 'answered'));
      request.resume();
    };
    const body = 'x'.repeat(megabyte);
    const answers: number[] = [];
    const all = Array.from({ length: 44 }, () =>
      send('POST', '/tokens', headersOf('key'), body).then(
        ({ status }) => void answers.push(status),
        // Refused while the client was still sending.
        () => void answers.push(503),
      ),
    );
    await waitUntil(() => answers.length >= 12, { what: 'refusals' });
    expect(new Set(answers)).toEqual(new Set([503]));
    await waitUntil(() => release.length + answers.length === 44);
    expect(release.length).toBeLessThanOrEqual(32);
    for (const each of release) each();
    release = [];
    command.behaviour = answer;
    await Promise.all(all);
    expect((await send('POST', '/tokens', headersOf('key'), body)).status).toBe(200);
  });

  it('and that stall do not refuse those of other keys, and no small ones, with whatever keys they come', async () => {
    for (let nth = 0; nth < 130; nth++) stall('no key');
    await waitUntil(() => inFlight.held > 31 * megabyte);
    const small = () => send('POST', '/tokens', headersOf('no key'), 'x');
    expect((await small()).status).toBe(200);
    const large = await send('POST', '/tokens', headersOf('key'), 'x'.repeat(megabyte));
    expect(large.status).toBe(200);
    for (let nth = 0; nth < 200; nth++) stall(`key ${nth}`, 300 * 1024);
    await waitUntil(() => inFlight.held > 63 * megabyte);
    expect((await small()).status).toBe(200);
    expect((await send('POST', '/tokens', headersOf('key'), 'x')).status).toBe(200);
  });
});
