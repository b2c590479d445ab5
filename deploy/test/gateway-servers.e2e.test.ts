import { freePorts } from '@token-vault/process';
import { describe, expect, it, vi } from 'vitest';
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
