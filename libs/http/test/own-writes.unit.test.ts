import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { NotFoundError } from '@token-vault/contracts';
import type { ProjectionProgress } from '@token-vault/read-models';
import { type Position } from '@token-vault/event-store';
import { goodKey, principalWith } from './tiny-app.ts';
import { expectProblem, json, post, useEdge } from './edge.ts';

const edge = useEdge();
const { start } = edge;

describe('reading your own writes', () => {
  const writing = { createToken: async () => ({ body: {}, position: '7' as Position }) };
  const newToken = (headers: Record<string, string> = {}) =>
    edge.app.send('/tokens', post({ type: 'token', data: 1 }, { ...json, ...headers }));

  it('waits for the position of a write and returns it', async () => {
    const waited: string[] = [];
    await start({ handlers: writing, waitFor: async (position) => (waited.push(position), true) });
    const reply = await newToken();
    expect([reply.headers['svc-position'], reply.headers['svc-consistency']]).toEqual(['7', undefined]);
    expect(waited).toEqual(['7']);
  });

  it('does not wait after a write whose effect is in the log only', async () => {
    const react = async () => ({ body: {}, position: '7' as Position });
    const principal = principalWith({ permissions: ['token:use'] });
    const authentications = { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } } as const;
    await start({ handlers: { react }, authentications, waitFor: () => new Promise(() => {}) });
    const reply = await edge.app.send(`/reactors/${randomUUID()}/react`, post({ args: {} }));
    expect([reply.status, reply.headers['svc-position'], reply.headers['svc-consistency']]).toEqual([
      200,
      '7',
      undefined,
    ]);
  });

  it('says pending when the read models are late', async () => {
    await start({ handlers: writing, waitFor: async () => false });
    const reply = await newToken();
    expect([reply.status, reply.headers['svc-consistency']]).toEqual([201, 'pending']);
  });

  it('does not wait for a caller who prefers that', async () => {
    await start({ handlers: writing, waitFor: () => new Promise(() => {}) });
    const reply = await newToken({ Prefer: 'wait=5, respond-async' });
    expect([reply.status, reply.headers['svc-consistency']]).toEqual([201, 'pending']);
  });

  it('waits for the position that a query names: 503 when it is not reached, 400 when it is invalid', async () => {
    await start({ waitFor: async (position) => position === '7' });
    const at = (position: string) => edge.app.send('/tokens/abc', { headers: { 'SVC-POSITION': position } });
    expect((await at('7')).status).toBe(200);
    const late = await at('8');
    expectProblem(late, 503);
    expect(late.headers['retry-after']).toBe('1');
    expectProblem(await at('soon'), 400);
  });

  it('does not use rows that were read while the connection was lost: found, not found, or the caller', async () => {
    let losses = 0;
    const progress: ProjectionProgress = {
      waitFor: async () => true,
      reach: async () => true,
      recovered: async () => true,
      get losses() {
        return losses;
      },
      read: async () => undefined,
      close: async () => {},
    };
    const lost = async () => {
      losses += 1;
      return { body: {} };
    };
    const notFound = async () => {
      losses += 1;
      throw new NotFoundError('token');
    };
    await start({
      handlers: { getToken: lost, listTokens: notFound, createToken: lost },
      dependencies: { progress },
    });
    expectProblem(await edge.app.send('/tokens/abc'), 503);
    expectProblem(await edge.app.send('/tokens'), 503);
    expect((await newToken()).status).toBe(201);
    const authenticator = {
      authenticate: async () => {
        losses += 1;
        return { kind: 'unknown' } as const;
      },
      authenticateConsole: async () => ({ kind: 'unknown' }) as const,
      forget: () => {},
    };
    await edge.app.stop();
    await start({ dependencies: { progress, authenticator } });
    expectProblem(await newToken(), 503);
  });

  it('clears the cache of callers after a write that may change them', async () => {
    let forgotten = 0;
    const written = async () => ({ body: {}, position: '7' as Position });
    const handlers = { createApplication: written, react: written, ...writing };
    const principal = principalWith({ permissions: ['application:create', 'token:create', 'token:use'] });
    await start({
      handlers,
      onForget: () => (forgotten += 1),
      authentications: { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } },
    });
    await newToken();
    expect((await edge.app.send(`/reactors/${randomUUID()}/react`, post({ args: {} }))).status).toBe(200);
    expect(forgotten).toBe(0);
    await edge.app.send('/applications', post({ name: 'a', type: 'private', permissions: ['token:read'] }));
    expect(forgotten).toBe(1);
  });
});
