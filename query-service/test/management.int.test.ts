import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  ApplicationDeleted,
  NotFoundError,
  streams,
  TenantDeleted,
  type Application,
  type OperationId,
  type Pagination,
  type Reactor,
} from '@token-vault/contracts';
import { managerOf, principalOf, recorded, setUpVault, unavailable, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  tenantId = await vault.tenant({ fingerprint_tokens: 'true' });
});
afterEach(() => vault.beforeRecord());

interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: Item[];
}
const call = <Body>(id: OperationId, request = {}, principal = managerOf(tenantId)) =>
  vault.call<Body>(id, principal, request);

describe('an application', () => {
  const rule = {
    priority: 1,
    container: '/pci/',
    transform: 'reveal' as const,
    permissions: ['token:read' as const],
  };
  const get = (id: string, tenant = tenantId) =>
    call<Application>('getApplication', { params: { id } }, managerOf(tenant));

  it('is answered without its key', async () => {
    const id = await vault.application(tenantId, {
      name: 'Shop',
      permissions: [],
      rules: [rule],
      expires_at: '2030-02-01T00:00:00+01:00',
    });
    await vault.settle();
    expect(await get(id.toUpperCase())).toEqual({
      id,
      tenant_id: tenantId,
      name: 'Shop',
      type: 'private',
      permissions: [],
      rules: [rule],
      created_by: expect.any(String) as string,
      created_at: '2030-01-01T00:00:00.000Z',
      expires_at: '2030-02-01T00:00:00+01:00',
    });
    expect(await recorded(vault, tenantId, 'EntitiesRead')).toEqual([
      { entity_type: 'application', operation: 'read', entity_ids: [id] },
    ]);
  });

  it('is not found when absent, deleted, expired or another tenant’s', async () => {
    const deleted = await vault.application(tenantId);
    await vault.append(tenantId, streams.application(tenantId, deleted), ApplicationDeleted, {
      application_id: deleted,
    });
    const brief = await vault.application(tenantId, { expires_at: '2030-01-01T00:00:01Z' });
    const theirs = await vault.application(await vault.tenant());
    await vault.settle();
    expect((await get(brief)).id).toBe(brief);
    vault.clock.set('2030-01-01T00:00:01Z');
    for (const id of [deleted, brief, theirs, randomUUID()])
      await expect(get(id)).rejects.toThrow(NotFoundError);
    expect((await call<Page<Application>>('listApplications')).pagination.total_items).toBe(0);
  });

  it('is found by its own key', async () => {
    const id = await vault.application(tenantId, { permissions: ['token:create'] });
    await vault.settle();
    const caller = principalOf(tenantId, { applicationId: id, permissions: ['token:create'] });
    expect((await call<Application>('getApplicationByKey', {}, caller)).id).toBe(id);
  });

  it('is listed newest first, by id and type', async () => {
    const first = await vault.application(tenantId, { type: 'public', permissions: ['token:create'] });
    const second = await vault.application(tenantId);
    const third = await vault.application(tenantId);
    await vault.application(await vault.tenant());
    await vault.settle();
    const ids = async (query: Record<string, unknown>) => {
      const { data, pagination } = await call<Page<Application>>('listApplications', { query });
      return [pagination.total_items, ...data.map(({ id }) => id)];
    };
    expect(await ids({})).toEqual([3, third, second, first]);
    expect(await ids({ type: ['public', 'management'] })).toEqual([1, first]);
    expect(await ids({ id: [first, third, randomUUID()] })).toEqual([2, third, first]);
    expect(await ids({ page: '2', size: '2' })).toEqual([3, first]);
    expect(await ids({ size: '0' })).toEqual([3]);
  });
});

describe('the permissions', () => {
  const list = (query = {}) =>
    call<{ type: string; application_types: string[] }[]>('listPermissions', { query });

  it('are listed with the application types that may hold them', async () => {
    const all = await list();
    expect(all.find(({ type }) => type === 'token:create')?.application_types).toEqual(['private', 'public']);
    expect(all.find(({ type }) => type === 'log:read')?.application_types).toEqual(['management']);
    expect((await list({ application_type: 'public' })).map(({ type }) => type)).toEqual([
      'token:create',
      'token:update',
    ]);
  });
});

describe('a reactor', () => {
  const list = async (query: Record<string, unknown> = {}) => {
    const { data, pagination } = await call<Page<Reactor>>('listReactors', { query });
    expect(pagination.total_items).toBe(data.length);
    return data.map(({ name }) => name);
  };

  it('is answered with its configuration and its application', async () => {
    const applicationId = await vault.application(tenantId, { name: 'Shop' });
    const id = await vault.reactor(tenantId, {
      name: 'Pay',
      configuration: { KEY: 'value' },
      application_id: applicationId,
    });
    await vault.settle();
    expect(await call<Reactor>('getReactor', { params: { id } })).toEqual({
      id,
      tenant_id: tenantId,
      name: 'Pay',
      code: 'module.exports = async () => ({})',
      configuration: { KEY: 'value' },
      application: { id: applicationId, name: 'Shop', type: 'private' },
      created_by: expect.any(String) as string,
      created_at: '2030-01-01T00:00:00.000Z',
    });
  });

  it('is not found in another tenant, nor when its keys are destroyed', async () => {
    const id = await vault.reactor(tenantId);
    await vault.settle();
    const stranger = managerOf(await vault.tenant());
    await expect(call('getReactor', { params: { id } }, stranger)).rejects.toThrow(NotFoundError);
    await vault.keyRing.destroyKeysOfEntity(tenantId, `reactor:${id}`);
    await expect(call('getReactor', { params: { id } })).rejects.toThrow(NotFoundError);
  });

  it('is found by its name, where only * is special', async () => {
    for (const name of ['Pay card', 'pay bank', '100%', 'a_b', 'a\\b', 'axb', 'Übung']) {
      await vault.reactor(tenantId, { name });
    }
    await vault.settle();
    expect(await list({ name: 'PAY' })).toEqual(['pay bank', 'Pay card']);
    expect(await list({ name: 'card' })).toEqual(['Pay card']);
    expect(await list({ name: 'card*' })).toEqual([]);
    expect(await list({ name: 'p*k' })).toEqual(['pay bank']);
    expect(await list({ name: '*' })).toHaveLength(7);
    expect(await list({ name: '%' })).toEqual(['100%']);
    expect(await list({ name: 'a_b' })).toEqual(['a_b']);
    expect(await list({ name: 'a\\b' })).toEqual(['a\\b']);
    expect(await list({ name: "' or true --" })).toEqual([]);
    expect(await list({ name: 'übung' })).toEqual(['Übung']);
  });

  it('is shown only when the reading is recorded', async () => {
    const id = await vault.reactor(tenantId);
    await vault.settle();
    await call('getReactor', { params: { id } });
    expect(await recorded(vault, tenantId, 'EntitiesRead')).toEqual([
      { entity_type: 'reactor', operation: 'read', entity_ids: [id] },
    ]);
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(call('getReactor', { params: { id } })).rejects.toBe(unavailable);
    await expect(call('listReactors')).rejects.toBe(unavailable);
  });
});

describe('a tenant', () => {
  it('is answered by its own key', async () => {
    await vault.settle();
    expect(await call('getTenant')).toEqual({
      id: tenantId,
      name: 'Acme',
      plan: 'standard',
      settings: { fingerprint_tokens: 'true' },
      created_at: '2030-01-01T00:00:00.000Z',
    });
  });

  it('that is deleted is not found', async () => {
    await vault.append(tenantId, streams.tenant(tenantId), TenantDeleted, { tenant_id: tenantId });
    await vault.settle();
    await expect(call('getTenant')).rejects.toThrow(NotFoundError);
  });

  it('reports its use', async () => {
    await vault.token(tenantId, { token_type: 'card' });
    vault.clock.set('2030-02-01T00:00:00Z');
    await vault.token(tenantId, { token_type: 'card', expires_at: '2030-02-01T00:01:00Z' });
    const last = await vault.token(tenantId, { token_type: 'bank' });
    await vault.token(await vault.tenant());
    await vault.settle();
    await vault.call('getToken', principalOf(tenantId), { params: { id: last } });
    await vault.settle();
    expect(await call('getUsageReport')).toEqual({
      token_report: {
        monthly_active_tokens: 2,
        total_tokens: 3,
        metrics_by_type: {
          bank: { count: 1, last_created_at: '2030-02-01T00:00:00.000Z' },
          card: { count: 2, last_created_at: '2030-02-01T00:00:00.000Z' },
        },
      },
    });
    expect(await call('getUsageReport', { query: { months: '3' } })).toMatchObject({
      token_report: {
        months: [
          { month: '2029-12', monthly_active_tokens: 0 },
          { month: '2030-01', monthly_active_tokens: 1 },
          { month: '2030-02', monthly_active_tokens: 2 },
        ],
      },
    });
    vault.clock.set('2030-02-01T00:01:00Z');
    expect(await call('getUsageReport')).toMatchObject({
      token_report: {
        total_tokens: 2,
        metrics_by_type: { card: { count: 1, last_created_at: '2030-01-01T00:00:00.000Z' } },
      },
    });
  });

  it.each<OperationId>(['getTenant', 'getUsageReport', 'listApplications'])(
    'is not shown by %s when that cannot be recorded',
    async (id) => {
      await vault.settle();
      vault.beforeRecord(() => Promise.reject(unavailable));
      await expect(call(id)).rejects.toBe(unavailable);
    },
  );
});
