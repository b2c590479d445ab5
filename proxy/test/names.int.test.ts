import type { Principal } from '@token-vault/access';
import { eventRegistry, type RawRequest, secret } from '@token-vault/contracts';
import { createEgressBroker, type EgressBrokerOptions } from '@token-vault/egress';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { silentLogger } from '@token-vault/observability';
import { createAuditTrail, createRequestContext, systemClock, type Answer } from '@token-vault/operations';
import { waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createProxyHandlers } from '../src/routes.ts';

const cleanups: (() => Promise<unknown>)[] = [];
let server: Server;
let port: number;
let arrived: number;
let answering: (response: ServerResponse) => void;
let store: EventStore;

beforeAll(async () => {
  server = createServer((_request, response) => {
    arrived += 1;
    answering(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  arrived = 0;
  answering = (response) => void response.end('arrived');
  store = createMemoryEventStore({ registry: eventRegistry });
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const principal: Principal = {
  tenant: { id: randomUUID(), plan: 'standard', settings: {} },
  actor: { kind: 'application', id: randomUUID() },
  applicationId: randomUUID(),
  applicationType: 'private',
  permissions: ['token:use'],
  rules: [],
};

/** A configured proxy to a name, on the real broker. */
function openProxy(options: EgressBrokerOptions) {
  const broker = createEgressBroker({ allowCidrs: ['127.0.0.1/32'], ...options });
  const id = randomUUID();
  const proxy = createProxyHandlers({
    store,
    audit: createAuditTrail(store),
    clock: systemClock,
    expressions: createExpressions(createInlineWorkers()),
    logger: silentLogger,
    observe: () => () => undefined,
    guess: (_context, _isMiss, work) => work(),
    send: broker.send,
    takeTokens: async (_references, _context, make) => ({
      use: [],
      made: make(new Map()),
      madeAt: new Map(),
    }),
    checkTokens: async () => undefined,
    decisionOnUse: async () => () => undefined,
    useNamed: async () => undefined,
    decisionOnSeen: async () => async () => ({ refusal: undefined }),
    areThere: async () => true,
    findProxy: async () => ({
      id,
      revision: 0,
      destination: `http://destination.test:${port}/base`,
      destinations: [],
      requestCode: undefined,
      responseCode: undefined,
      applicationId: undefined,
      configuration: async () => ({}),
    }),
    runCode: () => Promise.reject(new Error('there is no code')),
  });
  cleanups.push(
    () => broker.close(),
    () => proxy.close(),
  );
  return async (): Promise<Answer> => {
    const path = `/proxies/${id}/invoke/x`;
    const body: RawRequest = {
      method: 'POST',
      path,
      query: '',
      headers: [],
      body: secret(Buffer.from('x')),
      signal: new AbortController().signal,
    };
    const context = createRequestContext({ principal, traceId: 't', now: new Date() });
    return proxy.handlers.invokeProxy({ params: { id, path: '/x' }, query: undefined, body }, context);
  };
}

const read = ({ stream }: Answer): Promise<string> => text(stream?.body ?? Readable.from([]));

/** The outcome of the last exchange in the log. */
async function ending(): Promise<unknown> {
  const ends = async () => {
    const found: unknown[] = [];
    for await (const { type, data } of store.readAll(startPosition))
      if (type === 'ProxyAnswered') found.push(data);
    return found;
  };
  await waitUntil(async () => (await ends()).length > 0, { what: 'the end in the log' });
  return (await ends()).at(-1);
}

describe('the name of the destination of a configured proxy', () => {
  it('is resolved once for a connection, and the checked address is the one that is used', async () => {
    const answers = [['127.0.0.1'], ['10.0.0.1']];
    const asked: string[] = [];
    const invoke = openProxy({
      async resolve(name) {
        asked.push(name);
        return answers.shift() ?? [];
      },
    });
    answering = (response) => void response.setHeader('connection', 'close').end('pinned');
    expect(await read(await invoke())).toBe('pinned');
    expect(asked).toEqual(['destination.test']);
    await expect(invoke()).rejects.toMatchObject({ status: 403 });
    expect([asked.length, arrived]).toEqual([2, 1]);
  });

  it.each([
    ['has a private address beside a permitted one', ['127.0.0.1', '10.0.0.1'], 'refused-address'],
    ['has none', [], 'network'],
  ])('that %s is refused, and nothing is sent', async (_what, addresses, failure) => {
    await expect(openProxy({ resolve: async () => addresses })()).rejects.toMatchObject({ code: /./ });
    expect(arrived).toBe(0);
    expect(await ending()).toMatchObject({ failure });
  });
});

describe('the destination of a configured proxy', () => {
  const resolve = async () => ['127.0.0.1'];

  it('that sends nothing is 504 after the time limit of its head', async () => {
    answering = () => undefined;
    await expect(openProxy({ resolve, answerTimeoutMs: 200 })()).rejects.toMatchObject({ status: 504 });
    expect([arrived, await ending()]).toMatchObject([1, { failure: 'timeout' }]);
  });

  it('that stops within its answer or sends it too slowly is cut', async () => {
    answering = (response) => void response.write('begun');
    const stopped = await openProxy({ resolve, answerTimeoutMs: 200 })();
    await expect(read(stopped)).rejects.toThrow();
    answering = (response) => {
      const drips = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(drips));
    };
    const dripping = await openProxy({ resolve, timeoutMs: 300 })();
    await expect(read(dripping)).rejects.toThrow();
  });
});
