import { describe, expect, it } from 'vitest';
import { ForbiddenError } from '@token-vault/contracts';
import type { Authentication } from '@token-vault/authentication';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import { applicationId, goodKey, principalWith, send, tenantId } from './tiny-app.ts';
import { canary, expectProblem, json, post, useEdge } from './edge.ts';

const edge = useEdge();
const { start } = edge;

describe('the caller', () => {
  it('is unknown without a key or with one that never existed: 401, and no tenant log records it', async () => {
    await start();
    expectProblem(await send(edge.app.port, '/tokens/abc'), 401);
    expectProblem(await edge.app.send('/tokens/abc', { headers: { 'SVC-API-KEY': 'key_pvt_nobody' } }), 401);
    expect(await edge.app.events()).toEqual([]);
  });

  it('is refused with a key that is no longer valid, and the refusal is in the tenant’s log', async () => {
    const retired: Authentication = {
      kind: 'retired',
      key: { tenantId, applicationId, reason: 'regenerated' },
    };
    await start({ authentications: { key_pvt_old: retired } });
    expectProblem(await edge.app.send('/tokens/abc', { headers: { 'SVC-API-KEY': 'key_pvt_old' } }), 401);
    const events = await edge.app.events();
    expect(events).toMatchObject([
      { type: 'AuthenticationFailed', data: { application_id: applicationId, reason: 'regenerated' } },
    ]);
    expect(events[0]?.metadata.tenant_id).toBe(tenantId);
  });

  it('gets 403 without the permission, which is recorded', async () => {
    await start();
    expectProblem(await edge.app.send('/reactors/33333333-3333-4333-8333-333333333333'), 403);
    const [refusal, ...others] = await edge.app.events();
    expect(others).toEqual([]);
    expect(refusal).toMatchObject({ type: 'AccessDenied', metadata: { request: 'getReactor' } });
    // Without the id: no reactor was looked for.
    expect(refusal?.data).toEqual({
      entity_type: 'reactor',
      permission: 'reactor:read',
      operation: 'getReactor',
    });
  });

  it('is named in the record of a refusal when it was found, by its real type', async () => {
    const refuse = async () => {
      throw new ForbiddenError('Not this one.', { type: 'card', id: 'card-1' });
    };
    await start({ handlers: { getToken: refuse } });
    expectProblem(await edge.app.send('/tokens/anything'), 403);
    expect((await edge.app.events()).map(({ data }) => data)).toEqual([
      { entity_type: 'card', entity_id: 'card-1', permission: 'token:read', operation: 'getToken' },
    ]);
  });

  it('cannot put text into the log of refusals that a database cannot hold', async () => {
    await start({
      authentications: {
        key_mgt_other: {
          kind: 'authenticated',
          principal: principalWith({ permissions: ['log:read'] }),
          keyHash: 'other',
        },
      },
    });
    expectProblem(await edge.app.send('/tokens/a%00b', { headers: { 'SVC-API-KEY': 'key_mgt_other' } }), 403);
    const [refusal] = await edge.app.events();
    expect(refusal?.data).toEqual({
      entity_type: 'token',
      permission: 'token:read',
      operation: 'getToken',
    });
  });

  it('needs the enterprise plan for a transaction, also to enlist', async () => {
    await start();
    expectProblem(await edge.app.send('/transactions', { method: 'POST' }), 403);
    const headers = { ...json, 'SVC-TRANSACTION-ID': '33333333-3333-4333-8333-333333333333' };
    expectProblem(await edge.app.send('/tokens', post({ type: 'token', data: 1 }, headers)), 403);
    expect((await edge.app.events()).map((event) => event.type)).toEqual(['AccessDenied', 'AccessDenied']);
  });

  it('does not get its id into the log by a transaction that the plan lacks', async () => {
    const principal = principalWith({ permissions: ['token:delete'] });
    await start({ authentications: { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } } });
    const headers = { 'SVC-TRANSACTION-ID': '33333333-3333-4333-8333-333333333333' };
    expectProblem(await edge.app.send(`/tokens/${canary}`, { method: 'DELETE', headers }), 403);
    const [refusal] = await edge.app.events();
    expect(refusal?.data).toEqual({
      entity_type: 'token',
      permission: 'token:delete',
      operation: 'deleteToken',
    });
  });

  it('is refused all the same when the refusal cannot be recorded, which is logged', async () => {
    await start({
      append: () => Promise.reject(new EventStoreUnavailableError(`down ${canary}`)),
    });
    expectProblem(await edge.app.send('/reactors/33333333-3333-4333-8333-333333333333'), 403);
    expect(edge.app.lines).toContainEqual(expect.objectContaining({ msg: 'refusal not recorded' }));
  });
});
