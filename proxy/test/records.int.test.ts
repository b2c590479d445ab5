import type { Principal } from '@token-vault/access';
import {
  ConflictError,
  eventRegistry,
  ForbiddenError,
  TokensRead,
  type RawRequest,
  type VaultEvent,
} from '@token-vault/contracts';
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
import { manualClock, waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createProxyHandlers, type ProxyDependencies } from '../src/routes.ts';

const number = '4111111111111111';
const shown = { applicationId: 'app', permission: 'token:read', transform: 'reveal' } as const;
const seen = { id: 'seen', createdAt: '2029-01-01T00:00:00.000Z', shown };
const cleanups: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

let store: EventStore;
/** The types of the events in the log at the moment when each request arrived. */
let arrivals: (readonly string[])[];
let answering: (request: IncomingMessage, response: ServerResponse) => void;
let url: string;
/** The body of the destination's last answer. */
let bodyOfAnswer: Readable | undefined;
/** Makes the next appends fail. */
let isLogDown: boolean;

async function events(): Promise<readonly VaultEvent[]> {
  const found: VaultEvent[] = [];
  for await (const event of store.readAll(startPosition)) found.push(event);
  return found;
}
const read = (stream: Answer['stream']): Promise<string> => text(stream?.body ?? Readable.from([]));
const typesInLog = async (): Promise<string[]> => (await events()).map(({ type }) => type);

beforeEach(async () => {
  const log = createMemoryEventStore({ registry: eventRegistry });
  isLogDown = false;
  store = {
    ...log,
    append: (...given) =>
      isLogDown ? Promise.reject(new EventStoreUnavailableError('the disk is full')) : log.append(...given),
  };
  arrivals = [];
  answering = (_request, response) => void response.end('done');
  const server = createServer((request, response) => {
    void typesInLog().then((types) => {
      arrivals.push(types);
      answering(request, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
});

const principalOf = (tenantId: string, settings: Record<string, string> = {}): Principal => ({
  tenant: { id: tenantId, plan: 'standard', settings },
  actor: { kind: 'application', id: randomUUID() },
  applicationId: randomUUID(),
  applicationType: 'private',
  permissions: ['token:use'],
  rules: [],
});

let clock: ReturnType<typeof manualClock>;
beforeEach(() => {
  clock = manualClock();
});

/** Gives the number for each token. `more`: what else is known of them; `opening`: awaited before they are open. */
const taking =
  (
    more: { readonly cvcEndsAt?: string } = {},
    opening = () => Promise.resolve(),
  ): ProxyDependencies['takeTokens'] =>
  async ({ tokens }, context) => ({
    madeAt: new Map(),
    use: [...tokens.keys()].map((token_id) =>
      context.event(TokensRead, {
        operation: 'use',
        tokens: [{ token_id, token_type: 'card', transform: 'reveal' }],
      }),
    ),
    tokens: opening().then(
      () => new Map([...tokens.keys()].map((id) => [id, { data: number, token: { id, data: number } }])),
    ),
    ...more,
  });

/** The proxy on the real broker and a real destination. Only the tokens are given, and the log is in memory. */
function openProxy(change: Partial<ProxyDependencies> = {}) {
  const broker = createEgressBroker({ allowCidrs: ['127.0.0.1/32'] });
  const proxy = createProxyHandlers({
    store,
    audit: createAuditTrail(store),
    clock,
    expressions: createExpressions(createInlineWorkers()),
    logger: silentLogger,
    guess: (_context, _isMiss, work) => work(),
    async send(request) {
      const answer = await broker.send(request);
      bodyOfAnswer = answer.body;
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
  return (tenantId: string = randomUUID(), renewed?: RequestContext['renewed'], proxyId?: string) => {
    const now = new Date('2030-01-01T00:00:00Z');
    const made = createRequestContext({ principal: principalOf(tenantId), traceId: 't', now });
    const context = { ...made, ...(renewed && { renewed }) };
    const type: [string, string] = ['Content-Type', 'text/plain'];
    const raw: RawRequest = {
      method: 'POST',
      path: proxyId === undefined ? '/proxy' : `/proxies/${proxyId}/invoke`,
      query: '',
      headers: proxyId === undefined ? [['SVC-PROXY-URL', url], type] : [type],
      body: Buffer.from('{{ card-1 }}'),
      signal: new AbortController().signal,
    };
    const request = { query: undefined, body: raw };
    return proxyId === undefined
      ? proxy.handlers.proxy({ ...request, params: undefined }, context)
      : proxy.handlers.invokeProxy({ ...request, params: { id: proxyId } }, context);
  };
}

const findProxyWith =
  (part: 'requestCode' | 'responseCode'): ProxyDependencies['findProxy'] =>
  async (_tenantId, id) => ({
    id,
    revision: 0,
    destination: url,
    destinations: [],
    requestCode: undefined,
    responseCode: undefined,
    applicationId: undefined,
    configuration: async () => ({}),
    [part]: 'code',
  });

describe('the record of a proxied request', () => {
  it('is in the log when the first byte arrives, with the use of the token; the end follows', async () => {
    const { stream } = await openProxy()();
    expect(await read(stream)).toBe('done');
    expect(arrivals).toEqual([['ProxyInvoked', 'TokensRead']]);
    await waitUntil(async () => (await typesInLog()).length === 3, { what: 'the end' });
    expect((await events())[2]).toMatchObject({ type: 'ProxyAnswered', data: { status: 200 } });
  });

  it('that cannot be made is 503, and nothing is sent', async () => {
    isLogDown = true;
    await expect(openProxy()()).rejects.toMatchObject({ code: 'unavailable' });
    expect([arrivals, await typesInLog()]).toEqual([[], []]);
  });

  it('gives its answer when only the end cannot be recorded', async () => {
    answering = (_request, response) => {
      isLogDown = true;
      response.end('done');
    };
    const { stream } = await openProxy()();
    expect(await read(stream)).toBe('done');
    expect(await typesInLog()).toEqual(['ProxyInvoked', 'TokensRead']);
  });
});

describe('an answer that breaks off while the rights of its caller are looked up', () => {
  it('is cut, and the log has its end', async () => {
    let disconnect: () => void = () => undefined;
    answering = (_request, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('half');
      disconnect = () => response.destroy();
    };
    const tenantId = randomUUID();
    const principal = principalOf(tenantId);
    let looks = 0;
    const renewed: RequestContext['renewed'] = async () => {
      looks += 1;
      if (looks === 2) {
        disconnect();
        await waitUntil(() => bodyOfAnswer?.destroyed, { what: 'the end of the answer' });
      }
      return createRequestContext({ principal, traceId: 't', now: new Date() });
    };
    const { stream } = await openProxy()(tenantId, renewed);
    await expect(read(stream)).rejects.toThrow();
    await waitUntil(async () => (await typesInLog()).length === 3, { what: 'the end' });
    expect((await events())[2]).toMatchObject({ data: { status: 200, failure: 'network' } });
  });
});

describe('a right that is withdrawn while the request is being recorded', () => {
  const endsUnsent = async (): Promise<void> => {
    expect(arrivals).toEqual([]);
    await waitUntil(async () => (await typesInLog()).length === 3, { what: 'the end' });
    expect((await events())[2]).toMatchObject({ type: 'ProxyAnswered', data: { failure: 'not-sent' } });
  };
  const renewedTo =
    (principal: Principal): RequestContext['renewed'] =>
    async () =>
      createRequestContext({ principal, traceId: 't', now: new Date() });

  it('to use the token: 403, nothing is sent, and the log records that nothing was sent', async () => {
    const tenantId = randomUUID();
    const checkTokens = () => Promise.reject(new ForbiddenError('no more'));
    const proxy = openProxy({ checkTokens });
    await expect(proxy(tenantId, renewedTo(principalOf(tenantId)))).rejects.toThrow('no more');
    await endsUnsent();
  });

  it('to send to the destination: likewise', async () => {
    const tenantId = randomUUID();
    const narrowed = principalOf(tenantId, { proxy_destinations: 'https://elsewhere.example' });
    await expect(openProxy()(tenantId, renewedTo(narrowed))).rejects.toMatchObject({ code: 'forbidden' });
    await endsUnsent();
  });

  it('of the whole caller: likewise', async () => {
    const gone = () => Promise.reject(new ForbiddenError('gone'));
    await expect(openProxy()(randomUUID(), gone)).rejects.toThrow('gone');
    await endsUnsent();
  });
});

describe('a cvc that ends while the request is under way', () => {
  const cvcEndsAt = '2030-01-01T00:00:10.000Z';
  const end = async () => clock.set(cvcEndsAt);
  const refused = { code: 'forbidden', message: 'A cvc that the request or its code was given has ended.' };

  /** A proxy with code that is shown the cvc, and runs until it has ended. */
  const withCode = (part: 'requestCode' | 'responseCode'): Partial<ProxyDependencies> => ({
    findProxy: findProxyWith(part),
    async runCode({ onSeen, parents }) {
      onSeen({ tokens: [], isComplete: true, cvcEndsAt });
      expect(parents()).toMatchObject([{ cvcEndsAt }]);
      await end();
      return { raw: {} };
    },
  });

  it('before the request leaves: 403, and nothing is sent', async () => {
    await expect(openProxy({ takeTokens: taking({ cvcEndsAt }, end) })()).rejects.toMatchObject(refused);
    expect(arrivals).toEqual([]);
  });

  it('at the destination: 403, and the answer is withheld', async () => {
    answering = (_request, response) => void end().then(() => response.end('done'));
    await expect(openProxy({ takeTokens: taking({ cvcEndsAt }) })()).rejects.toMatchObject(refused);
    expect(arrivals).toHaveLength(1);
  });

  it('does not count when none of the tokens had one', async () => {
    const { stream } = await openProxy({ takeTokens: taking({}, end) })();
    expect(await read(stream)).toBe('done');
  });

  it.each([
    ['requestCode', 0],
    ['responseCode', 1],
  ] as const)('while code has it (%s): 403', async (part, sent) => {
    const asked = openProxy(withCode(part))(randomUUID(), undefined, randomUUID());
    await expect(asked).rejects.toMatchObject(refused);
    expect(arrivals).toHaveLength(sent);
  });
});

describe('a withdrawal while the tokens are read that the request names, after code was shown another token', () => {
  it.each([
    ['requestCode', 'narrowed', 'forbidden', 0],
    ['requestCode', 'deleted', 'conflict', 0],
    ['responseCode', 'narrowed', 'forbidden', 1],
    ['responseCode', 'deleted', 'conflict', 1],
  ] as const)('%s, %s: %s, and requests sent: %i', async (part, withdrawal, code, sent) => {
    const tenantId = randomUUID();
    const principal = principalOf(tenantId);
    let hasRun = false;
    let withdrawn: typeof withdrawal | undefined;
    const proxy = openProxy({
      findProxy: findProxyWith(part),
      async runCode({ onSeen }) {
        onSeen({ tokens: [seen], isComplete: true });
        hasRun = true;
        return { raw: {} };
      },
      async decisionOnUse() {
        await nextTurn();
        if (hasRun) withdrawn = withdrawal;
        return () => undefined;
      },
      decisionOnSeen: async () => async () => ({
        refusal: withdrawn === 'narrowed' ? new ForbiddenError('narrowed') : undefined,
      }),
      areThere: async () => withdrawn !== 'deleted',
    });
    const renewed = async () => createRequestContext({ principal, traceId: 't', now: new Date() });
    await expect(proxy(tenantId, renewed, randomUUID())).rejects.toMatchObject({ code });
    expect(arrivals).toHaveLength(sent);
  });
});

it('a token of the request that is deleted while the tokens are read that code was shown: 409, and nothing is sent', async () => {
  const tenantId = randomUUID();
  const principal = principalOf(tenantId);
  let isDeleted = false;
  const proxy = openProxy({
    findProxy: findProxyWith('requestCode'),
    async runCode({ onSeen }) {
      onSeen({ tokens: [seen], isComplete: true });
      return { raw: {} };
    },
    async decisionOnSeen() {
      await nextTurn();
      isDeleted = true;
      return async () => ({ refusal: undefined });
    },
    checkTokens: () =>
      isDeleted ? Promise.reject(new ConflictError('conflict', 'gone')) : Promise.resolve(),
  });
  const renewed = async () => createRequestContext({ principal, traceId: 't', now: new Date() });
  await expect(proxy(tenantId, renewed, randomUUID())).rejects.toMatchObject({ code: 'conflict' });
  expect(arrivals).toHaveLength(0);
});

describe('128 requests of a tenant that are under way', () => {
  it('are the maximum: another is 503 and not sent, those of other tenants continue, and an end frees a place', async () => {
    const held: ServerResponse[] = [];
    answering = (_request, response) => void held.push(response);
    const proxy = openProxy();
    const tenantId = randomUUID();
    const all = Array.from({ length: 128 }, () => proxy(tenantId));
    await waitUntil(() => Promise.resolve(held.length === 128), { what: 'all of them' });
    await expect(proxy(tenantId)).rejects.toMatchObject({ code: 'unavailable' });
    const before = (await typesInLog()).filter((type) => type === 'ProxyInvoked');
    expect([before.length, held.length]).toEqual([128, 128]);

    const others = proxy(randomUUID());
    await waitUntil(() => Promise.resolve(held.length === 129), { what: 'that of another tenant' });
    answering = (_request, response) => void response.end('late');
    held.forEach((response) => response.end('done'));
    const answers = await Promise.all([...all, others]);
    expect(await Promise.all(answers.map(({ stream }) => read(stream)))).toEqual(
      Array.from({ length: 129 }, () => 'done'),
    );
    expect(await read((await proxy(tenantId)).stream)).toBe('late');
  });

  it('do not include failed ones', async () => {
    answering = (_request, response) => void response.destroy();
    const proxy = openProxy();
    const tenantId = randomUUID();
    for (let round = 0; round < 3; round += 1)
      await Promise.all(
        Array.from({ length: 64 }, () => expect(proxy(tenantId)).rejects.toMatchObject({ status: 502 })),
      );
  });
});

describe('a token that is deleted when it was read, while others are being read', () => {
  const stream = 'token-of-this-test';

  /** Reads whether the token is there. It is deleted a moment after the first reading that follows `begin`. */
  function reading(context: RequestContext) {
    let hasBegun = false;
    const isThere = async (): Promise<boolean> => {
      for await (const _ of store.readStream(stream, { backwards: true, maxCount: 1 })) return false;
      const deleted = context.event(TokensRead, { operation: 'use', tokens: [] });
      if (hasBegun) await store.append(stream, [deleted], 'no-stream');
      return true;
    };
    return { isThere, begin: () => (hasBegun = true) };
  }

  it.each([
    ['requestCode', 'checkTokens', 'conflict', 0],
    ['requestCode', 'areThere', 'conflict', 0],
    ['requestCode', 'decisionOnUse', 'forbidden', 0],
    ['responseCode', 'areThere', 'conflict', 1],
  ] as const)('%s, read by %s: %s, and requests sent: %i', async (part, reader, code, sent) => {
    const tenantId = randomUUID();
    const context = createRequestContext({ principal: principalOf(tenantId), traceId: 't', now: new Date() });
    const { isThere, begin } = reading(context);
    const readers: Pick<ProxyDependencies, 'checkTokens' | 'areThere' | 'decisionOnUse'> = {
      async checkTokens() {
        if (!(await isThere())) throw new ConflictError('conflict', 'gone');
      },
      areThere: isThere,
      async decisionOnUse() {
        const refusal = (await isThere()) ? undefined : new ForbiddenError('gone');
        return () => refusal;
      },
    };
    let isActing = false;
    const proxy = openProxy({
      findProxy: findProxyWith(part),
      async runCode({ onSeen, requireActing }) {
        onSeen({ tokens: [seen], isComplete: true });
        begin();
        if (reader === 'decisionOnUse') await requireActing();
        isActing = true;
        return { raw: {} };
      },
      [reader]: readers[reader],
    });
    await expect(proxy(tenantId, async () => context, randomUUID())).rejects.toMatchObject({ code });
    expect([arrivals.length, isActing]).toEqual([sent, reader !== 'decisionOnUse']);
  });
});

describe('the answer of a request whose caller was authenticated a moment ago', () => {
  it.each([true, false])(
    'is decided by the tokens of the request when code was shown others: %s',
    async (isSeen) => {
      let hasRun = false;
      const decided: (readonly string[])[] = [];
      const proxy = openProxy({
        findProxy: findProxyWith('responseCode'),
        async runCode({ onSeen }) {
          onSeen({ tokens: isSeen ? [seen] : [], isComplete: true });
          hasRun = true;
          return { raw: {} };
        },
        async decisionOnUse(tokenIds) {
          if (hasRun) decided.push(tokenIds);
          return () => undefined;
        },
      });
      await proxy(randomUUID(), async () => undefined, randomUUID());
      expect(decided).toEqual([isSeen ? ['card-1'] : []]);
    },
  );

  it('has an unknown outcome when it cannot be decided now: the request has been sent', async () => {
    const proxy = openProxy({
      async decisionOnUse() {
        if (arrivals.length > 0)
          throw new EventStoreUnavailableError('streams change faster than they are read');
        return () => undefined;
      },
    });
    await expect(proxy()).rejects.toMatchObject({ code: 'outcome_unknown' });
    expect(arrivals).toHaveLength(1);
  });

  it('has an unknown outcome when a step of its code could not be decided: the code may have sent requests before', async () => {
    let hasRun = false;
    const proxy = openProxy({
      findProxy: findProxyWith('requestCode'),
      async runCode({ requireActing }) {
        hasRun = true;
        await requireActing();
        return { raw: {} };
      },
      async decisionOnUse() {
        if (!hasRun) return () => undefined;
        hasRun = false;
        throw new EventStoreUnavailableError('streams change faster than they are read');
      },
    });
    const code = 'outcome_unknown';
    await expect(proxy(undefined, undefined, randomUUID())).rejects.toMatchObject({ code });
  });
});
