import { silentLogger } from '@token-vault/observability';
import { createServer, request as requestOf, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { startGateway, type Gateway } from '../src/index.ts';

type Respond = (status: number, body: string, headers?: Record<string, string>) => void;
export type Behaviour = (request: IncomingMessage, respond: Respond) => void;

interface FakeService {
  readonly server: Server;
  /** Once it listens. */
  readonly url: URL;
  readonly seen: string[];
  /** The headers of the last request. */
  headers: IncomingMessage['headers'];
  behaviour: Behaviour;
}

export const answer: Behaviour = (_request, respond) => respond(200, 'answered');

function createService(): FakeService {
  const server = createServer((request, response) => {
    if (/^\/health\/(live|ready)$/.test(request.url ?? '')) {
      response.end();
      return;
    }
    service.seen.push(`${request.method} ${request.url}`);
    service.headers = request.headers;
    service.behaviour(request, (status, body, headers = {}) => {
      request.resume();
      response.writeHead(status, headers).end(body);
    });
  });
  const service: FakeService = {
    server,
    get url() {
      return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    },
    seen: [],
    headers: {},
    behaviour: answer,
  };
  return service;
}

const listening = ({ server }: FakeService) =>
  new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

export async function startService(): Promise<FakeService> {
  const service = createService();
  await listening(service);
  return service;
}

interface Answered {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

export const typeOf = ({ body }: Answered) => (JSON.parse(body) as { type: string }).type;

/** A router and one service of each kind, for the tests of the file. Each test starts with services that answer. */
export function useGateway() {
  const services = [createService(), createService(), createService()] as const;
  const [command, query, proxy] = services;
  let gateway: Gateway;

  beforeAll(async () => {
    await Promise.all(services.map(listening));
    const settings = { host: '127.0.0.1', port: 0, logLevel: 'silent' };
    const urls = { commandServices: [command.url], queryServices: [query.url], proxies: [proxy.url] };
    gateway = await startGateway({ ...settings, ...urls }, silentLogger);
  });
  afterAll(async () => {
    await gateway.close();
    for (const { server } of services) {
      server.closeAllConnections();
      server.close();
    }
  });
  beforeEach(() => {
    for (const service of services) {
      service.behaviour = answer;
      service.seen.length = 0;
    }
  });

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

  return {
    gateway: {
      get port() {
        return gateway.port;
      },
    },
    command,
    query,
    proxy,
    send,
  };
}
