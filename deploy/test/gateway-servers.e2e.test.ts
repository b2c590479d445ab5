import { freePorts } from '@token-vault/process';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { describe, expect, it, vi } from 'vitest';
import { places } from '../nginx/places.ts';
import { makeCertificate, openssl } from './certificate.ts';
import { nginxBinary, problemOf, send, startFakeService, startGateway } from './running-gateway.ts';

describe.skipIf(nginxBinary === undefined)(
  'a gateway with services missing (skipped where no nginx is installed)',
  () => {
    it('reaches the available server, and answers that nothing was done when there is none', async () => {
      const service = await startFakeService('command');
      const closedPort = `127.0.0.1:${(await freePorts(['127.0.0.1']))[0]}`;
      const gateway = await startGateway({
        commandServers: [closedPort, `127.0.0.1:${service.port}`],
        queryServers: [closedPort, closedPort],
        proxyServers: [closedPort],
      });
      try {
        for (let count = 0; count < 4; count += 1)
          expect((await send(gateway.port, 'POST', '/tokens', { body: '{}' })).status).toBe(200);
        expect(service.seen).toHaveLength(4);
        await service.close();
        const write = await send(gateway.port, 'POST', '/tokenize', { body: '{}' });
        expect(problemOf(write)).toMatchObject({ status: 503, type: 'urn:token-vault:problem:unavailable' });
        const read = await send(gateway.port, 'GET', '/tokens');
        expect(problemOf(read)).toMatchObject({ status: 503, type: 'urn:token-vault:problem:unavailable' });
      } finally {
        await gateway.stop();
      }
    });

    it('accepts the forwarded address only from configured load balancers', async () => {
      const service = await startFakeService('query');
      const servers = [`127.0.0.1:${service.port}`];
      const gateway = await startGateway(
        { commandServers: servers, queryServers: servers, proxyServers: servers },
        { trustedProxies: ['127.0.0.0/8'] },
      );
      try {
        await send(gateway.port, 'GET', '/tokens', {
          headers: { 'X-Forwarded-For': '6.6.6.6, 9.9.9.9, 127.0.0.2' },
        });
        expect(service.seen[0]?.headers['x-forwarded-for']).toBe('9.9.9.9');
      } finally {
        await gateway.stop();
        await service.close();
      }
    });

    it('refuses more than the allowed number of requests of one address at once', async () => {
      const service = await startFakeService('query');
      service.behaviour = 'hold';
      const servers = [`127.0.0.1:${service.port}`];
      const gateway = await startGateway(
        { commandServers: servers, queryServers: servers, proxyServers: servers },
        { requestsAtOncePerAddress: 2, exposesHealth: true },
      );
      try {
        const held = [1, 2].map(() => send(gateway.port, 'GET', '/tokens'));
        await vi.waitUntil(() => service.seen.length === 2);
        const third = await send(gateway.port, 'GET', '/tokens');
        expect([third.status, third.headers['retry-after']]).toEqual([429, '1']);
        expect(problemOf(third)).toMatchObject({ type: 'urn:token-vault:problem:rate-limited' });
        service.release();
        for (const answer of await Promise.all(held)) expect(answer.status).toBe(200);
        service.behaviour = 'answer';
        expect((await send(gateway.port, 'GET', '/health/ready')).status).toBe(200);
      } finally {
        await gateway.stop();
        await service.close();
      }
    });
  },
);

describe.skipIf(nginxBinary === undefined || process.platform !== 'linux')(
  'a gateway that cannot do its work (skipped where no nginx is installed)',
  () => {
    it('answers 500 as a problem with a trace id', async () => {
      const service = await startFakeService('query');
      const servers = [`127.0.0.1:${service.port}`];
      const gateway = await startGateway({
        commandServers: servers,
        queryServers: servers,
        proxyServers: servers,
      });
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      const get = (path: string) =>
        new Promise<http.IncomingMessage>((resolve, reject) => {
          const options = { host: '127.0.0.1', port: gateway.port, path, agent };
          http.get({ ...options, headers: { 'SVC-API-KEY': 'key' } }, resolve).on('error', reject);
        });
      try {
        // The next request comes on this connection, which needs no descriptor any more. One to a service does.
        await text(await get('/nowhere'));
        for (const pid of gateway.workerPids())
          execFileSync('prlimit', ['--pid', String(pid), '--nofile=3:3'], { stdio: 'ignore' });
        const failed = await get('/tokens');
        const traceId = failed.headers['svc-trace-id'];
        expect(traceId).toMatch(/^[0-9a-f]{32}$/);
        expect([failed.statusCode, failed.headers['content-type']]).toEqual([
          500,
          'application/problem+json',
        ]);
        expect(JSON.parse(await text(failed))).toMatchObject({
          type: 'urn:token-vault:problem:internal',
          status: 500,
          trace_id: traceId,
        });
        expect(service.seen).toEqual([]);
      } finally {
        agent.destroy();
        await gateway.stop();
        await service.close();
      }
    });
  },
);

describe.skipIf(nginxBinary === undefined || !openssl)(
  'the gateway of the example with TLS (skipped where no nginx or openssl is installed)',
  () => {
    it('serves its own host, answers 421 for another one, and refuses the handshake for another name', async () => {
      const service = await startFakeService('query');
      const servers = [`127.0.0.1:${service.port}`];
      const certificate = makeCertificate('vault.example.com');
      const { tls } = places['nginx/tls-example.conf']!;
      const gateway = await startGateway(
        { commandServers: servers, queryServers: servers, proxyServers: servers },
        // `http2 on` needs a newer nginx than Debian's.
        { tls: { ...tls!, certificate: certificate.certificate, key: certificate.key, http2: false } },
      );
      const get = (servername: string, host: string) =>
        new Promise<http.IncomingMessage>((resolve, reject) => {
          const options = {
            host: '127.0.0.1',
            port: gateway.port,
            path: '/tokens',
            agent: false,
            servername,
          };
          const ca = readFileSync(certificate.certificate);
          const headers = { Host: host, 'SVC-API-KEY': 'key' };
          https.get({ ...options, ca, headers }, resolve).on('error', reject);
        });
      const name = 'vault.example.com';
      try {
        const served = await get(name, name);
        expect(JSON.parse(await text(served))).toEqual({ service: 'query', url: '/tokens' });
        expect(served.headers['strict-transport-security']).toMatch(/^max-age=\d+$/);
        for (const host of ['other.example.com', '127.0.0.1', `x.${name}`]) {
          const refused = await get(name, host);
          expect(refused.statusCode).toBe(421);
          const problem = JSON.parse(await text(refused)) as object;
          expect(problem).toMatchObject({
            type: 'urn:token-vault:problem:misdirected-request',
            status: 421,
            trace_id: refused.headers['svc-trace-id'],
          });
        }
        await expect(get('other.example.com', name)).rejects.toThrow(/unrecognized name/);
        expect(service.seen).toHaveLength(1);
      } finally {
        await gateway.stop();
        await service.close();
        certificate.remove();
      }
    });
  },
);
