import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { EntitiesRead, streams, type LogEntry, type Pagination } from '@token-vault/contracts';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { createFairReads } from '../src/fair-reads.ts';
import { createLogHandlers } from '../src/logs/routes.ts';
import { managerOf, principalOf, recorded, ruleOn, setUpVault, unavailable, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  tenantId = await vault.tenant();
});
afterEach(() => vault.beforeRecord());

interface LogPage {
  readonly pagination: Pagination;
  readonly data: LogEntry[];
}
const logs = (query: Record<string, string> = {}) =>
  vault.call<LogPage>('listLogs', managerOf(tenantId), { query });
const told = (page: LogPage) =>
  page.data.map(({ message, entity_id: id }) => `${message} ${id ?? ''}`.trim());

describe('the log', () => {
  it('lists operations with their actors, newest first', async () => {
    const id = await vault.token(tenantId, { token_type: 'card' });
    const reader = principalOf(tenantId);
    await vault.settle();
    vault.clock.advance(1000);
    await vault.call('getToken', reader, { params: { id } });
    const { data } = await logs();
    expect(data[0]).toEqual({
      tenant_id: tenantId,
      actor_id: reader.applicationId,
      actor_type: 'application',
      entity_type: 'card',
      entity_id: id,
      operation: 'read',
      transform: 'redact',
      request: 'getToken',
      trace_id: 'test',
      message: 'Token retrieved',
      created_at: '2030-01-01T00:00:01.000Z',
    });
    expect(data.map(({ message }) => message)).toEqual([
      'Token retrieved',
      'Token created',
      'Tenant created',
    ]);
  });

  it('holds the operation that was answered just before, without a wait', async () => {
    for (let index = 0; index < 20; index += 1) {
      const id = await vault.token(tenantId);
      expect((await logs({ entity_id: id })).pagination.total_items).toBe(1);
    }
  });

  it('is reported as pending when its projection does not reach the position', async () => {
    await vault.token(tenantId);
    let outOfTurn = 0;
    const headersWhen = async (isThere: boolean) => {
      const { listLogs } = createLogHandlers({
        reads: createFairReads(vault.pool),
        store: vault.store,
        audit: createAuditTrail(vault.store),
        waitForProjections: async (_position, _timeoutMs, names) => isThere && names?.join() === 'log',
      });
      const context = createRequestContext({
        principal: managerOf(tenantId),
        traceId: 'test',
        now: vault.clock.now(),
        outOfTurn: (wait) => ((outOfTurn += 1), wait()),
      });
      const { headers } = await listLogs?.(
        { params: undefined, query: { page: 1, size: 10 }, body: undefined },
        context,
      );
      return headers;
    };
    expect(await headersWhen(false)).toEqual({ 'SVC-CONSISTENCY': 'pending' });
    expect(await headersWhen(true)).toEqual({});
    // Its wait holds no place of the edge.
    expect(outOfTurn).toBe(2);
  });

  it('has an entry for its own reading', async () => {
    await logs();
    expect(await recorded(vault, tenantId, 'EntitiesRead')).toEqual([
      { entity_type: 'log', operation: 'list', entity_ids: [] },
    ]);
    expect(told(await logs({ entity_type: 'log' }))).toEqual(['Log listed']);
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(logs()).rejects.toBe(unavailable);
  });

  it('never contains data of another tenant', async () => {
    const other = await vault.tenant();
    const id = await vault.token(other);
    for (const query of [{}, { entity_id: id }, { entity_type: 'token' }, { start_date: '2029-01-01' }]) {
      expect(told(await logs(query)).join()).not.toContain(id);
    }
    expect((await logs({ entity_id: id })).pagination.total_items).toBe(0);
  });

  it('has pages without gaps or repeats, also within the entries of one event', async () => {
    await vault.append(tenantId, streams.access(tenantId, '2030-01-01'), EntitiesRead, {
      entity_type: 'application',
      operation: 'list',
      entity_ids: ['a', 'b', 'c', 'd', 'e'],
    });
    const query = { entity_type: 'application', size: '2' };
    const pages = [
      await logs(query),
      await logs({ ...query, page: '2' }),
      await logs({ ...query, page: '3' }),
    ];
    expect(pages.flatMap(told).sort()).toEqual('abcde'.split('').map((id) => `Application listed ${id}`));
    expect(pages[0]?.pagination).toMatchObject({ total_items: 5, total_pages: 3 });
    expect((await logs({ ...query, page: '999999999' })).data).toEqual([]);
    expect((await logs({ size: '0' })).pagination.total_items).toBeGreaterThan(5);
  });

  it('pages and narrows the entries of events about several entities as those about one', async () => {
    const stream = streams.access(tenantId, '2030-01-01');
    for (const ids of [['a'], ['b', 'c', 'b', 'd'], [], ['a', 'c'], ['c'], ['d', 'e', 'a']])
      await vault.append(tenantId, stream, EntitiesRead, {
        entity_type: 'reactor',
        operation: 'list',
        entity_ids: ids,
      });
    const ofAll = { entity_type: 'reactor', operation: 'list' };
    const idsOf = ({ data }: LogPage) => data.map((entry) => entry.entity_id);
    const newestFirst = ['a', 'e', 'd', 'c', 'c', 'a', undefined, 'd', 'b', 'c', 'b', 'a'];
    expect(idsOf(await logs(ofAll))).toEqual(newestFirst);
    for (const size of [1, 2, 3, 5, 11]) {
      const paged: (string | undefined)[] = [];
      for (let page = 1; paged.length < newestFirst.length; page += 1)
        paged.push(...idsOf(await logs({ ...ofAll, size: String(size), page: String(page) })));
      expect(paged).toEqual(newestFirst);
    }
    for (const id of ['a', 'b', 'c', 'e']) {
      const found = await logs({ ...ofAll, entity_id: id, size: '2' });
      const count = newestFirst.filter((each) => each === id).length;
      expect(idsOf(found)).toEqual(Array(Math.min(2, count)).fill(id));
      expect(found.pagination.total_items).toBe(count);
    }
  });

  it.each(["x' or true --", '%', '_', '\\', 'x'.repeat(400)])(
    'is not tricked by the entity id %s',
    async (id) => {
      expect((await logs({ entity_id: id })).pagination.total_items).toBe(0);
    },
  );
});

describe('the log, narrowed', () => {
  const masked = '11111111-1111-4111-8111-111111111111';
  const revealing = '22222222-2222-4222-8222-222222222222';

  beforeEach(async () => {
    const id = await vault.token(tenantId, { containers: ['/pci/'], mask: '{{ data | reveal_last: 4 }}' });
    await vault.settle();
    await vault.call('getToken', principalOf(tenantId, { applicationId: masked }), { params: { id } });
    const rules = [ruleOn('/pci/', 'reveal')];
    await vault.call('getToken', principalOf(tenantId, { applicationId: revealing, rules }), {
      params: { id },
    });
    await vault.call('searchTokens', principalOf(tenantId, { applicationId: masked }), {
      body: { query: 'id:nothing' },
    });
    await vault.settle();
  });

  it.each<[Record<string, string>, string[]]>([
    [{ transform: 'mask' }, ['read mask getToken']],
    [{ transform: 'reveal' }, ['read reveal getToken']],
    [{ transform: 'redact' }, []],
    [{ operation: 'search' }, ['search - searchTokens']],
    [{ operation: 'read', transform: 'reveal' }, ['read reveal getToken']],
    [{ operation: 'read', entity_type: 'card' }, []],
    [{ operation: 'read', start_date: '2030-01-02' }, []],
    [{ operation: 'read', start_date: '2029-12-31T23:30:00Z', end_date: '2030-01-01' }, []],
    [{ transform: 'mask', start_date: '2029-12-31T23:30:00Z' }, ['read mask getToken']],
    [{ request: 'searchTokens' }, ['search - searchTokens']],
    [{ actor_id: revealing }, ['read reveal getToken']],
    [{ actor_id: masked }, ['search - searchTokens', 'read mask getToken']],
    [{ actor_id: masked, operation: 'read' }, ['read mask getToken']],
    [{ actor_id: masked, start_date: '2030-01-02' }, []],
    [{ trace_id: 'seed', entity_type: 'token' }, ['create - -']],
    [{ trace_id: 'another' }, []],
  ])('by %j gives and counts the matching entries', async (query, expected) => {
    const { data, pagination } = await logs(query);
    const told = data.map(({ operation, transform = '-', request = '-' }) =>
      [operation, transform, request].join(' '),
    );
    expect(told).toEqual(expected);
    expect(pagination.total_items).toBe(expected.length);
    expect((await logs({ ...query, size: '0' })).pagination.total_items).toBe(expected.length);
  });

  it('names no token for a search that found none', async () => {
    const { data } = await logs({ operation: 'search' });
    expect(data).toMatchObject([{ entity_type: 'token', message: 'Token search found nothing' }]);
    expect(data[0]).not.toHaveProperty('entity_id');
    expect(data[0]).not.toHaveProperty('transform');
  });

  it.each([{ transform: 'show' }, { operation: 'reed' }])(
    'refuses %j, which no entry can have',
    async (query) => {
      await expect(logs(query)).rejects.toThrow();
    },
  );
});

describe('a range of the log', () => {
  const moments = [
    '2030-01-05T09:59:59.999Z',
    '2030-01-05T10:00:00.000Z',
    '2030-01-05T10:30:00.000Z',
    '2030-01-05T11:00:00.000Z',
    '2030-01-05T11:30:00.000Z',
    '2030-01-06T00:00:00.000Z',
  ];
  beforeEach(async () => {
    for (const moment of moments) {
      vault.clock.set(moment);
      await vault.token(tenantId, { token_type: moment.includes(':30:') ? 'card' : 'token' });
    }
    await vault.settle();
  });

  it.each<[Record<string, string>, string[]]>([
    [{ start_date: '2030-01-05' }, moments],
    [{ start_date: '2030-01-06' }, moments.slice(5)],
    [{ start_date: '2030-01-05', end_date: '2030-01-06' }, moments.slice(0, 5)],
    [{ start_date: '2030-01-05T10:00:00Z', end_date: '2030-01-05T11:00:00Z' }, moments.slice(1, 3)],
    [{ start_date: '2030-01-05T11:00:00+01:00', end_date: '2030-01-05T12:00:00+01:00' }, moments.slice(1, 3)],
    [{ start_date: '2030-01-05T10:00:00.001Z', end_date: '2030-01-05T11:30:00.001Z' }, moments.slice(2, 5)],
    [{ start_date: '2030-01-05T10:10:00Z', end_date: '2030-01-05T10:40:00Z' }, moments.slice(2, 3)],
    [{ start_date: '2030-01-05T09:30:00Z', end_date: '2030-01-05T10:30:00Z' }, moments.slice(0, 2)],
    [{ start_date: '2030-01-05T10:30:00Z', end_date: '2030-01-05T10:30:00Z' }, []],
    [{ start_date: '2030-01-06', end_date: '2030-01-05' }, []],
    [{ start_date: '2030-01-05', entity_type: 'card' }, [moments[2] ?? '', moments[4] ?? '']],
    [
      { start_date: '2030-01-05T10:15:00Z', end_date: '2030-01-05T11:15:00Z', entity_type: 'card' },
      moments.slice(2, 3),
    ],
  ])('%j holds its start, not its end, and counts the same', async (query, expected) => {
    const page = await logs(query);
    expect(page.data.map(({ created_at: at }) => at)).toEqual([...expected].reverse());
    expect(page.pagination.total_items).toBe(expected.length);
  });
});

describe('the log’s entity types', () => {
  it('are in order', async () => {
    const types = await vault.call<{ display_name: string; value: string }[]>(
      'listEntityTypes',
      managerOf(tenantId),
    );
    expect(types[0]).toEqual({ display_name: 'Application', value: 'application' });
    expect(types.map(({ value }) => value)).toEqual(
      'application bank card log proxy reactor session tenant token transaction'.split(' '),
    );
  });
});

describe('while the log’s read model is stopped', () => {
  it('the log is still answered, in its present state', async () => {
    await vault.settle();
    await vault.stopProjecting();
    await vault.token(tenantId);
    expect(told(await logs())).toEqual([`Tenant created ${tenantId}`]);
  });
});
