import { randomUUID } from 'node:crypto';
import {
  NotFoundError,
  ReactorFailed,
  ReactorInvoked,
  ReactorStarted,
  ReactorSucceeded,
  streams,
  WebhookAttemptFailed,
  WebhookDelivered,
  WebhookGivenUp,
  WebhookRedeliveryRequested,
  type EventName,
  type Invocation,
  type NewDataOf,
  type Pagination,
  type VaultEventType,
} from '@token-vault/contracts';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { managerOf, recorded, setUpVault, unavailable, type Vault } from './vault.ts';

const start = '2030-01-01T00:00:00.000Z';
const sealed = 'sv1.00000000-0000-4000-8000-000000000000.AAAA';

let vault: Vault;
let tenantId: string;
let reactorId: string;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  vault.clock.set(start);
  tenantId = await vault.tenant();
  reactorId = randomUUID();
});
afterEach(() => vault.beforeRecord());

const append = <Type extends VaultEventType>(
  id: string,
  name: EventName<Type>,
  data: object,
): Promise<unknown> =>
  vault.append(tenantId, streams.invocation(tenantId, id), name, {
    invocation_id: id,
    reactor_id: reactorId,
    ...data,
  } as unknown as NewDataOf<Type>);

async function invoked(mode: 'sync' | 'async'): Promise<string> {
  const id = randomUUID();
  const data = { reactor_revision: 0, mode, args: sealed, token_ids: [], timeout_ms: 10_000, depth: 0 };
  await append(id, ReactorInvoked, data);
  return id;
}
async function started(mode: 'sync' | 'async'): Promise<string> {
  const id = await invoked(mode);
  await append(id, ReactorStarted, { runner_id: 'r', deadline: '2030-01-01T00:01:00Z' });
  return id;
}
const list = (query: object = {}, of = tenantId) =>
  vault.call<{ pagination: Pagination; data: Invocation[] }>('listInvocations', managerOf(of), { query });
const get = (id: string, of = tenantId) =>
  vault.call<Invocation>('getInvocation', managerOf(of), { params: { invocation_id: id } });

describe('a run', () => {
  it('is shown from its waiting to its end, with its times, without waiting for the read model', async () => {
    const id = await invoked('sync');
    const asked = { id, tenant_id: tenantId, reactor: { id: reactorId }, mode: 'sync', invoked_at: start };
    expect(await get(id)).toMatchObject({ ...asked, state: 'waiting' });
    vault.clock.advance(1_000);
    await append(id, ReactorStarted, { runner_id: 'r', deadline: '2030-01-01T00:01:00Z' });
    expect(await get(id)).toMatchObject({ state: 'running', started_at: '2030-01-01T00:00:01.000Z' });
    vault.clock.advance(250);
    await append(id, ReactorSucceeded, { mode: 'sync', result: sealed });
    const over = await get(id);
    expect(over).toMatchObject({
      state: 'succeeded',
      ended_at: '2030-01-01T00:00:01.250Z',
      duration_ms: 250,
    });
    expect([over.error, over.delivery]).toEqual([undefined, undefined]);
  });

  it('that failed has the class of the error', async () => {
    const id = await started('sync');
    await append(id, ReactorFailed, { mode: 'sync', status: 500, reason: 'timed-out', problem: sealed });
    expect(await get(id)).toMatchObject({ state: 'failed', error: { status: 500, class: 'timed-out' } });
  });

  it('has every attempt of its delivery, and the time of the next one', async () => {
    const id = await started('async');
    await append(id, ReactorSucceeded, { mode: 'async', result: sealed });
    expect((await get(id)).delivery).toEqual({ state: 'due', next_at: start, attempts: [] });
    const next_at = '2030-01-01T00:00:02.000Z';
    await append(id, WebhookAttemptFailed, { attempt: 1, reason: 'refused-address', next_at });
    const first = { number: 1, attempted_at: start, reason: 'refused-address' };
    expect((await get(id)).delivery).toEqual({ state: 'due', next_at, attempts: [first] });
    await append(id, WebhookGivenUp, { attempt: 2, reason: 'status 500' });
    expect((await get(id)).delivery?.state).toBe('given-up');
    await append(id, WebhookRedeliveryRequested, {});
    expect((await get(id)).delivery).toMatchObject({ state: 'due', next_at: start });
    await append(id, WebhookDelivered, { attempt: 3 });
    const second = { number: 2, attempted_at: start, reason: 'status 500' };
    const third = { number: 3, attempted_at: start };
    expect((await get(id)).delivery).toEqual({ state: 'delivered', attempts: [first, second, third] });
  });

  it('of another tenant is not found, nor one that never existed', async () => {
    const id = await invoked('sync');
    const other = await vault.tenant();
    await expect(get(id, other)).rejects.toThrow(NotFoundError);
    await expect(get(randomUUID())).rejects.toThrow(NotFoundError);
    expect((await list({}, other)).data).toEqual([]);
  });

  it('is not shown when the read cannot be recorded', async () => {
    const id = await invoked('sync');
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(get(id)).rejects.toThrow(unavailable);
    await expect(list()).rejects.toThrow(unavailable);
  });
});

describe('a list of runs', () => {
  it('has the newest first, a page at a time, and is recorded', async () => {
    const ids = [await invoked('sync'), await invoked('sync'), await invoked('async')];
    const { pagination, data } = await list({ size: '2' });
    expect([pagination.total_items, data.map(({ id }) => id)]).toEqual([3, [ids[2], ids[1]]]);
    expect((await list({ size: '2', page: '2' })).data.map(({ id }) => id)).toEqual([ids[0]]);
    expect((await recorded(vault, tenantId, 'EntitiesRead'))[0]).toEqual({
      entity_type: 'reactor',
      operation: 'list',
      entity_ids: [reactorId],
    });
  });

  it('can be of one reactor, or of one state', async () => {
    const first = await started('sync');
    reactorId = randomUUID();
    const second = await invoked('sync');
    expect((await list({ reactor_id: reactorId })).data.map(({ id }) => id)).toEqual([second]);
    expect((await list({ state: 'running' })).data.map(({ id }) => id)).toEqual([first]);
  });
});
