import {
  eventRegistry,
  newId,
  streams,
  TenantUpdated,
  type VaultEvent,
  newEvent,
} from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { silentLogger, systemClock } from '@token-vault/service-kit';
import { createTestDatabase, createTestPool, type TestDatabase } from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exportAudit } from '../src/audit/export.ts';
import { sealLog, sealLogOnce, type SealerOptions } from '../src/audit/sealer.ts';
import { verifyAudit } from '../src/audit/verify.ts';
import { migrate } from '../src/migrations/index.ts';
import { schema } from '../src/schema.ts';

let database: TestDatabase;
let pool: Pool;
let store: EventStore;
let keyRing: KeyRing;
let sealer: SealerOptions;
const tenants = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'] as const;
const [first, second] = tenants;

beforeEach(async () => {
  database = await createTestDatabase();
  await migrate(database.url, schema);
  pool = createTestPool(database.url, { max: 5 });
  store = createPostgresEventStore({
    registry: eventRegistry,
    connection: { connectionString: database.url },
  });
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  keyRing = await createKeyRing({ pool, rootKey, clock: systemClock, durability: 'own' });
  for (const tenantId of tenants) await keyRing.createTenantKeys(tenantId);
  sealer = { database: pool, store, keyRing, clock: systemClock, logger: silentLogger };
});
afterEach(async () => {
  await store.close();
  await pool.end();
  await database.drop();
});

function update(tenantId: string, name: string): VaultEvent {
  const data = { tenant_id: tenantId, name, settings: {} };
  return newEvent(TenantUpdated, data, {
    id: newId(),
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'system', id: 'test' },
      trace_id: 't',
      correlation_id: 't',
      occurred_at: '2030-01-01T00:00:00.000Z',
    },
  });
}

/** Events of both tenants by turns, at the next positions. */
async function write(count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const tenantId = tenants[index % 2] ?? first;
    await store.append(streams.tenant(tenantId), [update(tenantId, `name ${index}`)], 'any');
  }
}

const verify = (range: { readonly from?: string; readonly to?: string } = {}) =>
  verifyAudit({ pool, keyRing, ...range });
const problems = async (): Promise<string[]> =>
  (await verify()).findings.map(({ position, problem }) => `${position}: ${problem}`);

/** As someone who owns the database, but not the root key. */
async function tamper(...statements: string[]): Promise<void> {
  const set = ['set session_replication_role = replica', ...statements, 'reset session_replication_role'];
  await pool.query(set.join(';\n'));
}

describe('a sealed log', () => {
  it('is as it was signed, over several checkpoints, by whatever order of tenants', async () => {
    await write(6);
    expect(await sealLog(sealer)).toBe(2);
    await write(5);
    expect(await sealLog(sealer)).toBe(2);
    expect(await sealLog(sealer)).toBe(0);
    await write(3);
    expect(await verify()).toMatchObject({ findings: [], events: 18, checkpoints: 4, unsealed: 3 });
  });

  it('shows an event whose data, metadata, type or place was changed, by its name', async () => {
    const changes = [
      [`data = replace(data::text, 'name 2', 'name X')::json`, /not what was signed/],
      [`metadata = replace(metadata::text, '2030', '2031')::json`, /not what was signed/],
      [`metadata = replace(metadata::text, '"t"', ' "t"')::json`, /not what was signed/],
      [
        `type = 'TenantPlanChanged'`,
        /^3: TenantPlanChanged of tenant-\S+, revision 1, is not what was signed$/,
      ],
      [`id = gen_random_uuid()`, /not what was signed/],
      [`revision = 77`, /revision 77, is not what was signed/],
    ] as const;
    await write(6);
    await sealLog(sealer);
    for (const [change, problem] of changes) {
      await tamper('create table kept as select * from event_store.event where position = 3',
        `update event_store.event set ${change} where position = 3`); // prettier-ignore
      expect(await problems()).toEqual([expect.stringMatching(problem)]);
      await tamper('delete from event_store.event where position = 3',
        'insert into event_store.event select * from kept', 'drop table kept'); // prettier-ignore
    }
    expect(await problems()).toEqual([]);
  });

  it('shows an event that was dropped, with its position', async () => {
    await write(6);
    await sealLog(sealer);
    await tamper('delete from event_store.event where position = 3');
    expect(await problems()).toEqual([
      '3: the event is missing',
      '5: an event that was signed is missing before this',
    ]);
  });

  it('shows events that changed places', async () => {
    await write(6);
    await sealLog(sealer);
    await tamper(
      'update event_store.event set position = -position where position in (1, 3)',
      'update event_store.event set position = 4 + position where position < 0',
    );
    expect(await problems()).toEqual([
      expect.stringMatching(/^1: TenantUpdated .*revision 1, is not what was signed/),
      expect.stringMatching(/^3: TenantUpdated .*revision 0, is not what was signed/),
    ]);
  });

  it('shows an event that was moved to another tenant', async () => {
    await write(6);
    await sealLog(sealer);
    await tamper(
      `update event_store.event set metadata = replace(metadata::text, '${first}', '${second}')::json where position = 3`,
    );
    expect(await problems()).toEqual([
      expect.stringMatching(/^5: an event that was signed is missing before this/),
      expect.stringMatching(/^3: .* was put in/),
    ]);
  });

  it('shows a log whose gap was closed', async () => {
    await write(6);
    await sealLog(sealer);
    await tamper(
      'delete from event_store.event where position = 3',
      'update event_store.event set position = -position where position > 3',
      'update event_store.event set position = -position - 1 where position < 0',
      'update event_store.head set position = position - 1',
    );
    expect((await problems()).length).toBeGreaterThan(0);
  });

  it('shows a checkpoint that was forged, and builds nothing on it', async () => {
    await write(2);
    await sealLog(sealer);
    await tamper(
      `update event_store.event set data = jsonb_set(data::jsonb, '{count}', '9')::json where stream = 'audit-${first}'`,
    );
    expect(await problems()).toContainEqual(expect.stringContaining('not signed by its tenant'));
    await write(2);
    expect(await sealLog(sealer)).toBe(1);
  });

  it('shows a checkpoint that was taken out with what it covered', async () => {
    await write(2);
    await sealLog(sealer);
    await write(2);
    await sealLog(sealer);
    await write(2);
    await sealLog(sealer);
    await tamper(`delete from event_store.event where stream = 'audit-${first}' and revision = 1`);
    expect(await problems()).toContainEqual(
      expect.stringContaining('a checkpoint before this one is missing'),
    );
  });

  it('shows that its end was cut off', async () => {
    await write(4);
    await sealLog(sealer);
    await write(2);
    await tamper('delete from event_store.event where position > 7');
    expect(await problems()).toEqual(['8: 1 events at the end of the log are missing']);
  });

  it('says how much is newer than the last checkpoint, where a change cannot be known yet', async () => {
    await write(2);
    await sealLog(sealer);
    await write(2);
    await tamper(`update event_store.event set data = '{}' where position = 6`);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 2 });
  });
});

describe('a part of a sealed log', () => {
  it('is verified from the checkpoints before it, and finds only what lies there', async () => {
    await write(4);
    await sealLog(sealer);
    await write(4);
    await sealLog(sealer);
    await tamper(`update event_store.event set data = '{}' where position = 1`);
    expect(await verify({ from: '4' })).toMatchObject({ findings: [], after: '4', checkpoints: 2 });
    expect((await verify({ from: '3' })).findings).toMatchObject([{ position: '1' }]);
    expect((await verify({ to: '6' })).findings).toMatchObject([{ position: '1' }]);
    await tamper(`update event_store.event set data = '{}' where position = 8`);
    expect((await verify({ from: '4' })).findings).toMatchObject([{ position: '8' }]);
  });
});

describe('sealing', () => {
  it('that was cut off between two tenants is completed', async () => {
    await write(4);
    let appends = 0;
    const append: EventStore['append'] = async (...input) => {
      if (appends++ === 1) throw new Error('cut off');
      return store.append(...input);
    };
    await expect(sealLog({ ...sealer, store: { ...store, append } })).rejects.toThrow('cut off');
    await write(2);
    expect(await sealLog(sealer)).toBe(3);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0, checkpoints: 4 });
    expect(await verify({ from: '4' })).toMatchObject({ findings: [], after: '4' });
  });

  it('is done by one process at a time', async () => {
    await write(4);
    const signed = await Promise.all([sealLogOnce({ ...sealer, pool }), sealLogOnce({ ...sealer, pool })]);
    expect(signed.filter((count) => count !== 0 && count !== undefined)).toEqual([2]);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0 });
  });

  it('outlives a rotation of keys, and leaves out a tenant whose keys are destroyed', async () => {
    await write(2);
    await sealLog(sealer);
    await keyRing.rotateTenant(first);
    await write(2);
    await sealLog(sealer);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0 });
    await keyRing.destroyAllOfTenant(first);
    await write(2);
    expect(await sealLog(sealer)).toBe(1);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 1, withoutKeys: [first] });
  });
});

it('an export has each event of its tenant as it is stored, and the checkpoints', async () => {
  await write(5);
  await sealLog(sealer);
  const lines: string[] = [];
  for await (const line of exportAudit({ pool, tenantId: first, format: 'jsonl' })) lines.push(line);
  const rows = lines.map((line) => JSON.parse(line) as { position: string; type: string; hash: string });
  expect(rows.map(({ position }) => position).slice(0, 3)).toEqual(['1', '3', '5']);
  expect(rows[3]).toMatchObject({ type: 'AuditCheckpointSigned', hash: '' });
  expect(rows[0]?.hash).toMatch(/^[\da-f]{64}$/);
  const csv: string[] = [];
  for await (const line of exportAudit({ pool, tenantId: first, format: 'csv', from: '3' })) csv.push(line);
  expect(csv).toHaveLength(3);
  expect(csv[1]).toContain('""name ""'.replace('name ', 'name'));
});
