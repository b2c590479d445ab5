import { silentLogger } from '@token-vault/observability';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { readGatewaySettings, startGateway, type Gateway, type GatewaySettings } from '../src/index.ts';
import { typeOf, useGateway } from './gateway-of-fakes.ts';

const { gateway, command, query, proxy, send } = useGateway();
/** Routers with other settings. */
const others: Gateway[] = [];

afterAll(() => Promise.all(others.map((each) => each.close())));

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
