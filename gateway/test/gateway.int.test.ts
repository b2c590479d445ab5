import { listen, trustOf } from '@token-vault/http';
import { silentLogger } from '@token-vault/observability';
import { waitUntil } from '@token-vault/test-support';
import { createServer, request as requestOf, type IncomingMessage, type Server } from 'node:http';
import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { readGatewaySettings, startGateway, type Gateway, type GatewaySettings } from '../src/index.ts';
import { createProxy } from '../src/proxy.ts';
import { createUpstreams } from '../src/upstreams.ts';

type Respond = (status: number, body: string, headers?: Record<string, string>) => void;
type Behaviour = (request: IncomingMessage, respond: Respond) => void;

interface FakeService {
  readonly server: Server;
  readonly url: URL;
  readonly seen: string[];
  /** The headers of the last request. */
  headers: IncomingMessage['headers'];
  behaviour: Behaviour;
}

const answer: Behaviour = (_request, respond) => respond(200, 'answered');

async function startService(): Promise<FakeService> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    if (/^\/health\/(live|ready)$/.test(request.url ?? '')) {
      response.end();
      return;
    }
    seen.push(`${request.method} ${request.url}`);
    service.headers = request.headers;
    service.behaviour(request, (status, body, headers = {}) => {
      request.resume();
      response.writeHead(status, headers).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const service: FakeService = { server, url, seen, headers: {}, behaviour: answer };
  return service;
}

let command: FakeService;
let query: FakeService;
let proxy: FakeService;
let gateway: Gateway;
/** Routers with other settings. */
const others: Gateway[] = [];

beforeAll(async () => {
  [command, query, proxy] = [await startService(), await startService(), await startService()];
  const settings = { host: '127.0.0.1', port: 0, logLevel: 'silent' };
  const services = { commandServices: [command.url], queryServices: [query.url], proxies: [proxy.url] };
  gateway = await startGateway({ ...settings, ...services }, silentLogger);
});
afterAll(async () => {
  await Promise.all([gateway, ...others].map((each) => each.close()));
  for (const { server } of [command, query, proxy]) {
    server.closeAllConnections();
    server.close();
  }
});
beforeEach(() => {
  for (const service of [command, query, proxy]) {
    service.behaviour = answer;
    service.seen.length = 0;
  }
});

interface Answered {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

/** Sends the target unchanged. */
function send(
  method: string,
  target: string,
  headers: Record<string, string> = { 'SVC-API-KEY': 'key' },
  body = '',
  port = gateway.port,
) {
  return new Promise<Answered>((resolve, reject) => {
    const sent = requestOf({ host: '127.0.0.1', port, method, path: target, headers }, (response) => {
      void text(response).then((received) =>
        resolve({ status: response.statusCode ?? 0, body: received, headers: response.headers }),
      );
    });
    sent.on('error', reject).end(body);
  });
}

const typeOf = ({ body }: Answered) => (JSON.parse(body) as { type: string }).type;

describe('the router', () => {
  it.each([
    '/metrics',
    '/METRICS/',
    '/metrics?x',
    'http://x/metrics',
    'HTTP://x/metrics?a=/tokens',
    '/%6detrics',
    '//metrics',
    '/tokens/../metrics',
    '/status',
    '/favicon.ico',
    '/docs/../metrics',
  ])('passes no request for %s on', async (target) => {
    // prettier-ignore
    expect((await send('GET', target)).status).toBe(404);
    expect([...command.seen, ...query.seen]).toEqual([]);
  });

  it.each(['/metrics#x', '/tokens#x', 'http://x/metrics#x', '/tokens\\..\\metrics', '*'])(
    'refuses %s, which is no path',
    async (target) => {
      const refused = await send('GET', target);
      expect([refused.status, typeOf(refused)]).toEqual([400, 'urn:token-vault:problem:validation-failed']);
      expect([...command.seen, ...query.seen]).toEqual([]);
    },
  );

  it.each([
    ['POST', 'http://x/tokens', 'command', 'POST /tokens'],
    ['GET', 'http://x/tokens?page=2', 'query', 'GET /tokens?page=2'],
    ['POST', 'https://x/tokens/search', 'query', 'POST /tokens/search'],
    ['DELETE', '/tokens', 'command', 'DELETE /tokens'],
    ['POST', '/detokenize', 'query', 'POST /detokenize'],
    ['PUT', '/tokens', 'query', 'PUT /tokens'],
    ['GET', '/openapi.json', 'query', 'GET /openapi.json'],
    ['GET', '/health/ready/?x', 'query', 'GET /health/ready/?x'],
  ] as const)('forwards %s %s to the %s service in origin form', async (method, target, service, seen) => {
    expect((await send(method, target)).status).toBe(200);
    expect({ command: command.seen, query: query.seen }).toEqual({
      command: [],
      query: [],
      [service]: [seen],
    });
  });

  it('leaves no listeners on a connection to a service that many requests use', async () => {
    const warnings: string[] = [];
    const note = ({ message }: Error) => void warnings.push(message);
    process.on('warning', note);
    for (let n = 0; n < 12; n += 1) expect((await send('GET', '/tokens')).status).toBe(200);
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  it('refuses a request without a key before it has read its body', async () => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write('POST /tokens HTTP/1.1\r\nHost: vault\r\nContent-Length: 1000000\r\n\r\n{');
    const received = await text(socket);
    expect(received).toMatch(/^HTTP\/1\.1 401 [^]*\r\nConnection: close\r\n/i);
    expect(command.seen).toEqual([]);
  });
});

describe('what a request says about its client', () => {
  const said = {
    'SVC-API-KEY': 'key',
    Host: 'vault.internal',
    'X-Forwarded-For': '9.9.9.9',
    'X-Forwarded-Host': 'vault.example',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Port': '443',
    'X-Forwarded-Prefix': '/x',
    'X-Real-IP': '9.9.9.9',
    Forwarded: 'for=9.9.9.9;host=vault.example;proto=https',
  };

  /** The headers that a service gets from a router that believes these load balancers. */
  async function passedOn(
    trustProxy: GatewaySettings['trustProxy'],
    headers: Record<string, string> = said,
  ): Promise<Record<string, unknown>> {
    const services = { commandServices: [command.url], queryServices: [query.url], proxies: [proxy.url] };
    const settings = { host: '127.0.0.1', port: 0, logLevel: 'silent', trustProxy };
    const router = await startGateway({ ...settings, ...services }, silentLogger);
    others.push(router);
    await send('GET', '/tokens', headers, '', router.port);
    return Object.fromEntries(
      Object.entries(query.headers).filter(([name]) => /^(host|forwarded|x-.*)$/.test(name)),
    );
  }

  it.each([undefined, 0, '10.0.0.0/8'])(
    'is not passed on from a peer that is no load balancer of the settings: %s',
    async (trustProxy) => {
      expect(await passedOn(trustProxy)).toEqual({
        host: 'vault.internal',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'http',
      });
    },
  );

  it.each([1, 'loopback', '10.0.0.0/8, 127.0.0.1'])(
    'is passed on from a load balancer, as addresses, host and scheme: %s',
    async (trustProxy) => {
      expect(await passedOn(trustProxy)).toEqual({
        host: 'vault.internal',
        'x-forwarded-for': '9.9.9.9, 127.0.0.1',
        'x-forwarded-host': 'vault.example',
        'x-forwarded-proto': 'https',
      });
      expect(await passedOn(trustProxy, { 'SVC-API-KEY': 'key', Host: 'vault.internal' })).toEqual({
        host: 'vault.internal',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'http',
      });
    },
  );

  it('is believed by VAULT_TRUST_PROXY, which is checked', () => {
    const services = ['COMMAND_SERVICE_URLS', 'QUERY_SERVICE_URLS', 'PROXY_URLS'];
    const environment = Object.fromEntries(services.map((name) => [name, 'http://a:1']));
    const read = (text: string) =>
      readGatewaySettings({ ...environment, VAULT_TRUST_PROXY: text }).trustProxy;
    expect([read(''), read('2'), read('loopback')]).toEqual([undefined, 2, 'loopback']);
    expect(() => read('somewhere')).toThrow(/^VAULT_TRUST_PROXY must be a number of hops/);
  });
});

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

  it('are limited in sum, and accepted again when the others have ended', async () => {
    let release: (() => void)[] = [];
    command.behaviour = (request, respond) => {
      release.push(() => respond(200, 'answered'));
      request.resume();
    };
    const headers = { 'SVC-API-KEY': 'key' };
    const body = 'x'.repeat(megabyte);
    const answers: number[] = [];
    const all = Array.from({ length: 140 }, () =>
      send('POST', '/tokens', headers, body).then(
        ({ status }) => void answers.push(status),
        // Refused while the client was still sending.
        () => void answers.push(503),
      ),
    );
    await waitUntil(() => answers.length >= 12, { what: 'refusals' });
    expect(new Set(answers)).toEqual(new Set([503]));
    await waitUntil(() => release.length + answers.length === 140);
    expect(release.length).toBeLessThanOrEqual(128);
    for (const each of release) each();
    release = [];
    command.behaviour = answer;
    await Promise.all(all);
    expect((await send('POST', '/tokens', headers, body)).status).toBe(200);
  });
});
