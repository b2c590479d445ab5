import type { Principal } from '@token-vault/access';
import { eventRegistry, TokensRead, type RawRequest, type VaultEvent, secret } from '@token-vault/contracts';
import { createEgressBroker } from '@token-vault/egress';
import { EventStoreUnavailableError, startPosition, type EventStore } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { silentLogger } from '@token-vault/observability';
import {
  createAuditTrail,
  createRequestContext,
  type Answer,
  type RequestContext,
} from '@token-vault/operations';
import { manualClock, type ManualClock } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach } from 'vitest';
import { createProxyHandlers, type ProxyDependencies } from '../src/routes.ts';

const number = '4111111111111111';
const cleanups: (() => Promise<unknown> | void)[] = [];

/** Made anew for each test. */
interface ProxyFixture {
  store: EventStore;
  clock: ManualClock;
  /** Of the callers. */
  applicationId: string;
  /** The types of the events in the log at the moment when each request arrived. */
  arrivals: (readonly string[])[];
  answering: (request: IncomingMessage, response: ServerResponse) => void;
  url: string;
  /** The body of the destination's last answer. */
  bodyOfAnswer: Readable | undefined;
  /** Makes the next appends fail. */
  isLogDown: boolean;
}

export const fixture = {} as ProxyFixture;

export async function events(): Promise<readonly VaultEvent[]> {
  const found: VaultEvent[] = [];
  for await (const event of fixture.store.readAll(startPosition)) found.push(event);
  return found;
}
export const read = (stream: Answer['stream']): Promise<string> => text(stream?.body ?? Readable.from([]));
export const typesInLog = async (): Promise<string[]> => (await events()).map(({ type }) => type);

/** A destination and a log in memory for each test of the file. */
export function useProxyFixture(): void {
  beforeEach(async () => {
    const log = createMemoryEventStore({ registry: eventRegistry });
    fixture.isLogDown = false;
    fixture.applicationId = randomUUID();
    fixture.store = {
      ...log,
      append: (...given) =>
        fixture.isLogDown
          ? Promise.reject(new EventStoreUnavailableError('the disk is full'))
          : log.append(...given),
    };
    fixture.clock = manualClock();
    fixture.arrivals = [];
    fixture.answering = (_request, response) => void response.end('done');
    const server = createServer((request, response) => {
      void typesInLog().then((types) => {
        fixture.arrivals.push(types);
        fixture.answering(request, response);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    fixture.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    cleanups.push(() => {
      server.closeAllConnections();
      server.close();
    });
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
}

export const principalOf = (tenantId: string, settings: Record<string, string> = {}): Principal => ({
  tenant: { id: tenantId, plan: 'standard', settings },
  actor: { kind: 'application', id: randomUUID() },
  applicationId: fixture.applicationId,
  applicationType: 'private',
  permissions: ['token:use'],
  rules: [],
});

/** Gives the number for each token. `more`: what else is known of them; `opening`: awaited before they are open. */
export const taking =
  (
    more: { readonly cvcEndsAt?: string } = {},
    opening = () => Promise.resolve(),
  ): ProxyDependencies['takeTokens'] =>
  async ({ tokens }, context, make) => ({
    madeAt: new Map(),
    use: [...tokens.keys()].map((token_id) =>
      context.event(TokensRead, {
        operation: 'use',
        tokens: [{ token_id, token_type: 'card', transform: 'reveal' }],
      }),
    ),
    made: opening().then(() =>
      make(new Map([...tokens.keys()].map((id) => [id, { data: number, token: { id, data: number } }]))),
    ),
    ...more,
  });

/** The proxy on the real broker and a real destination. Only the tokens are given, and the log is in memory. */
export function openProxy(change: Partial<ProxyDependencies> = {}) {
  const broker = createEgressBroker({ allowCidrs: ['127.0.0.1/32'] });
  const proxy = createProxyHandlers({
    store: fixture.store,
    audit: createAuditTrail(fixture.store),
    clock: fixture.clock,
    expressions: createExpressions(createInlineWorkers()),
    logger: silentLogger,
    observe: () => () => undefined,
    guess: (_context, _isMiss, work) => work(),
    async send(request) {
      const answer = await broker.send(request);
      fixture.bodyOfAnswer = answer.body;
      return answer;
    },
    takeTokens: taking(),
    checkTokens: async () => undefined,
    decisionOnUse: async () => () => undefined,
    useNamed: async () => undefined,
    decisionOnSeen: async () => async () => ({ refusal: undefined }),
    areThere: async () => true,
    findProxy: () => Promise.reject(new Error('there are none')),
    runCode: () => Promise.reject(new Error('there is no code')),
    ...change,
  });
  cleanups.push(
    () => proxy.close(),
    () => broker.close(),
  );
  return (
    tenantId: string = randomUUID(),
    renewed?: RequestContext['renewed'],
    proxyId?: string,
    settings?: Record<string, string>,
  ) => {
    const now = new Date('2030-01-01T00:00:00Z');
    const made = createRequestContext({ principal: principalOf(tenantId, settings), traceId: 't', now });
    const context = { ...made, ...(renewed && { renewed }) };
    const type: [string, string] = ['Content-Type', 'text/plain'];
    const raw: RawRequest = {
      method: 'POST',
      path: proxyId === undefined ? '/proxy' : `/proxies/${proxyId}/invoke`,
      query: '',
      headers: proxyId === undefined ? [['SVC-PROXY-URL', fixture.url], type] : [type],
      body: secret(Buffer.from('{{ card-1 }}')),
      signal: new AbortController().signal,
    };
    const request = { query: undefined, body: raw };
    return proxyId === undefined
      ? proxy.handlers.proxy({ ...request, params: undefined }, context)
      : proxy.handlers.invokeProxy({ ...request, params: { id: proxyId } }, context);
  };
}

export const findProxyWith =
  (part: 'requestCode' | 'responseCode'): ProxyDependencies['findProxy'] =>
  async (_tenantId, id) => ({
    id,
    revision: 0,
    destination: fixture.url,
    destinations: [],
    requestCode: undefined,
    responseCode: undefined,
    applicationId: undefined,
    configuration: async () => ({}),
    [part]: 'code',
  });
