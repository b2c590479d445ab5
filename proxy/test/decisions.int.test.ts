import { ConflictError, ForbiddenError, TokensRead } from '@token-vault/contracts';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import { createRequestContext, type RequestContext } from '@token-vault/operations';
import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ProxyDependencies } from '../src/routes.ts';
import { fixture, principalOf, openProxy, findProxyWith, useProxyFixture } from './proxy-fixture.ts';

useProxyFixture();

const shown = { applicationId: 'app', permission: 'token:read', transform: 'reveal' } as const;
/** A token that code is shown. */
const seen = { id: 'seen', createdAt: '2029-01-01T00:00:00.000Z', shown };

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
    expect(fixture.arrivals).toHaveLength(sent);
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
  expect(fixture.arrivals).toHaveLength(0);
});

describe('a token that is deleted when it was read, while others are being read', () => {
  const stream = 'token-of-this-test';

  /** Reads whether the token is there. It is deleted a moment after the first reading that follows `begin`. */
  function reading(context: RequestContext) {
    let hasBegun = false;
    const isThere = async (): Promise<boolean> => {
      for await (const _ of fixture.store.readStream(stream, { backwards: true, maxCount: 1 })) return false;
      const deleted = context.event(TokensRead, { operation: 'use', tokens: [] });
      if (hasBegun) await fixture.store.append(stream, [deleted], 'no-stream');
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
    expect([fixture.arrivals.length, isActing]).toEqual([sent, reader !== 'decisionOnUse']);
  });
});

describe('a right that is withdrawn when it was found, while the proxy is being read', () => {
  it.each([
    ['requestCode', 'requireActing', 0],
    ['requestCode', 'requireSendable', 0],
    ['responseCode', 'requireShown', 1],
  ] as const)('%s, %s: refused, and requests sent: %i', async (part, step, sent) => {
    const tenantId = randomUUID();
    const principal = principalOf(tenantId);
    let [hasRun, isWithdrawn, isActing] = [false, false, false];
    const find = findProxyWith(part);
    const proxy = openProxy({
      async findProxy(...of) {
        const found = await find(...of);
        // Longer than rights count.
        if (hasRun && !isWithdrawn) await delay(150);
        isWithdrawn ||= hasRun;
        return found;
      },
      async runCode({ requireActing }) {
        hasRun = true;
        if (step === 'requireActing') await requireActing();
        isActing = true;
        return { raw: {} };
      },
      decisionOnUse:
        async () =>
        ({ principal: { permissions } }) =>
          permissions.length > 0 ? undefined : new ForbiddenError('withdrawn'),
    });
    const renewed = async () => {
      const present = isWithdrawn ? { ...principal, permissions: [] } : principal;
      return createRequestContext({ principal: present, traceId: 't', now: new Date() });
    };
    await expect(proxy(tenantId, renewed, randomUUID())).rejects.toMatchObject({ code: 'forbidden' });
    expect([fixture.arrivals.length, isActing]).toEqual([sent, step !== 'requireActing']);
  });
});

it.each([
  ['/proxy', undefined],
  ['a configured proxy', randomUUID()],
])('%s withholds the answer when the tenant no longer allows the destination', async (_name, proxyId) => {
  const tenantId = randomUUID();
  const proxy = openProxy({ findProxy: findProxyWith('responseCode'), runCode: async () => ({ raw: {} }) });
  const renewed = async () => {
    const allowed = fixture.arrivals.length > 0 ? 'https://other.example' : fixture.url;
    const principal = principalOf(tenantId, { proxy_destinations: allowed });
    return createRequestContext({ principal, traceId: 't', now: new Date() });
  };
  await expect(proxy(tenantId, renewed, proxyId)).rejects.toMatchObject({ code: 'forbidden' });
  expect(fixture.arrivals).toHaveLength(1);
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
        if (fixture.arrivals.length > 0)
          throw new EventStoreUnavailableError('streams change faster than they are read');
        return () => undefined;
      },
    });
    await expect(proxy()).rejects.toMatchObject({ code: 'outcome_unknown' });
    expect(fixture.arrivals).toHaveLength(1);
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
