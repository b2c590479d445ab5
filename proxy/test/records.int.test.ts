import type { Principal } from '@token-vault/access';
import { ForbiddenError } from '@token-vault/contracts';
import { createRequestContext, type RequestContext } from '@token-vault/operations';
import { waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { ProxyDependencies } from '../src/routes.ts';
import {
  fixture,
  events,
  read,
  typesInLog,
  principalOf,
  openProxy,
  findProxyWith,
  taking,
  useProxyFixture,
} from './proxy-fixture.ts';

useProxyFixture();

describe('the record of a proxied request', () => {
  it('is in the log when the first byte arrives, with the use of the token; the end follows', async () => {
    const { stream } = await openProxy()();
    expect(await read(stream)).toBe('done');
    expect(fixture.arrivals).toEqual([['ProxyInvoked', 'TokensRead']]);
    await waitUntil(async () => (await typesInLog()).length === 3, { what: 'the end' });
    expect((await events())[2]).toMatchObject({ type: 'ProxyAnswered', data: { status: 200 } });
  });

  it('that cannot be made is 503, and nothing is sent', async () => {
    fixture.isLogDown = true;
    await expect(openProxy()()).rejects.toMatchObject({ code: 'unavailable' });
    expect([fixture.arrivals, await typesInLog()]).toEqual([[], []]);
  });

  it('gives its answer when only the end cannot be recorded', async () => {
    fixture.answering = (_request, response) => {
      fixture.isLogDown = true;
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
    fixture.answering = (_request, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('half');
      disconnect = () => response.destroy();
    };
    const tenantId = randomUUID();
    const principal = principalOf(tenantId);
    const renewed: RequestContext['renewed'] = async () => {
      if (fixture.arrivals.length > 0) {
        disconnect();
        await waitUntil(() => fixture.bodyOfAnswer?.destroyed, { what: 'the end of the answer' });
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
    expect(fixture.arrivals).toEqual([]);
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

  it('of its application to send to the destination: likewise', async () => {
    const tenantId = randomUUID();
    const caller = principalOf(tenantId);
    const settings = { [`proxy_destinations.${caller.applicationId}`]: 'https://elsewhere.example' };
    const narrowed = { ...caller, tenant: { ...caller.tenant, settings } };
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
  const end = async () => fixture.clock.set(cvcEndsAt);
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
    expect(fixture.arrivals).toEqual([]);
  });

  it('at the destination: 403, and the answer is withheld', async () => {
    fixture.answering = (_request, response) => void end().then(() => response.end('done'));
    await expect(openProxy({ takeTokens: taking({ cvcEndsAt }) })()).rejects.toMatchObject(refused);
    expect(fixture.arrivals).toHaveLength(1);
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
    expect(fixture.arrivals).toHaveLength(sent);
  });
});

describe('128 requests of a tenant that are under way', () => {
  it('are the maximum: another is 503 and not sent, those of other tenants continue, and an end frees a place', async () => {
    const held: ServerResponse[] = [];
    fixture.answering = (_request, response) => void held.push(response);
    const proxy = openProxy();
    const tenantId = randomUUID();
    const all = Array.from({ length: 128 }, () => proxy(tenantId));
    await waitUntil(() => Promise.resolve(held.length === 128), { what: 'all of them' });
    await expect(proxy(tenantId)).rejects.toMatchObject({ code: 'unavailable' });
    const before = (await typesInLog()).filter((type) => type === 'ProxyInvoked');
    expect([before.length, held.length]).toEqual([128, 128]);

    const others = proxy(randomUUID());
    await waitUntil(() => Promise.resolve(held.length === 129), { what: 'that of another tenant' });
    fixture.answering = (_request, response) => void response.end('late');
    held.forEach((response) => response.end('done'));
    const answers = await Promise.all([...all, others]);
    expect(await Promise.all(answers.map(({ stream }) => read(stream)))).toEqual(
      Array.from({ length: 129 }, () => 'done'),
    );
    expect(await read((await proxy(tenantId)).stream)).toBe('late');
  });

  it('do not include failed ones', async () => {
    fixture.answering = (_request, response) => void response.destroy();
    const proxy = openProxy();
    const tenantId = randomUUID();
    for (let round = 0; round < 3; round += 1)
      await Promise.all(
        Array.from({ length: 64 }, () => expect(proxy(tenantId)).rejects.toMatchObject({ status: 502 })),
      );
  });
});
