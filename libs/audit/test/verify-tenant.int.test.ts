import { streams } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { UnknownCursorError } from '../src/cursor.ts';
import { countFindings } from '../src/findings.ts';
import { sealLog } from '../src/sealer.ts';
import type { CheckSignatures } from '../src/signatures.ts';
import { verifyAudit } from '../src/verify.ts';
import { verifyTenantAudit } from '../src/verify-tenant.ts';
import { openAuditLog, updateOf, type AuditLog, type LogKind } from './audit-log.ts';

const [own, other] = [
  '00000000-0000-4000-8000-000000000001',
  '00000000-0000-4000-8000-000000000002',
] as const;

const day = (number: number) => new Date(Date.UTC(2030, 0, number));

describe.each<LogKind>(['Postgres', 'EventStoreDB'])('the log of one tenant in %s', (kind) => {
  let log: AuditLog;
  let whole: StoredEvent[];

  async function write(on: number, ...tenants: readonly string[]): Promise<void> {
    for (const tenantId of tenants)
      await log.store.append(streams.tenant(tenantId), [updateOf(tenantId, 'name', day(on))], 'any');
  }

  // Places: 1–5 events, 6–7 checkpoints, 8–11 of the other tenant, 12 its checkpoint, 13–15, 16–17 checkpoints, 18–19 not signed.
  beforeAll(async () => {
    log = await openAuditLog(kind, [own, other]);
    await write(1, own, other, own, own, other);
    await sealLog(log.sealer);
    await write(2, other, other, other, other);
    await sealLog(log.sealer);
    await write(3, own, other, own);
    await sealLog(log.sealer);
    await write(4, own, other);
    whole = await log.read();
  });
  beforeEach(() => log.rewrite(whole));
  afterAll(() => log.end());

  const part = (cursor?: string, mostEvents = 1, until?: Date) =>
    verifyTenantAudit({ ...log, tenantId: own, cursor, mostEvents, until });

  /** Verifies in the shortest possible parts. */
  async function inParts() {
    const parts = [await part()];
    for (let next = parts[0]?.cursor; next; next = parts.at(-1)?.cursor) parts.push(await part(next));
    return parts;
  }

  const changes: readonly [string, (event: StoredEvent, place: number) => StoredEvent | undefined][] = [
    ['is as it was', (event) => event],
    ['has an altered event', (event, place) => (place === 3 ? { ...event, data: '{}' } : event)],
    ['lacks an event', (event, place) => (place === 13 ? undefined : event)],
    [
      'has an event more, between two stretches',
      (event, place) => (place === 9 ? { ...event, metadata: event.metadata.replaceAll(other, own) } : event),
    ],
    [
      'has a forged checkpoint',
      (event, place) =>
        [16, 17].includes(place) ? { ...event, data: event.data.replace(/"count":\d+/, '"count":9') } : event,
    ],
    ['lacks a checkpoint', (event, place) => ([6, 7].includes(place) ? undefined : event)],
    ['lacks its end', (event, place) => (place > 17 ? undefined : event)],
  ];

  it.runIf(kind === 'Postgres')(
    'that has events at positions that no append gives is not valid',
    async () => {
      // As a writer of the database, who owns its tables.
      await log.pool.query(`begin;
      alter table event_store.event drop constraint event_position_check;
      insert into event_store.event select place + position, stream, revision + 100 + (place > 0)::integer, version, bytes, gen_random_uuid(), type, data, metadata
        from event_store.event, unnest(array[-8, 4611686018427387904]) as place where position in (1, 2);
      commit`);
      const { findings } = await verifyAudit(log);
      expect(findings.map(({ position, tenantId }) => [position, tenantId])).toEqual([
        ['-7', own],
        ['-6', other],
        ['4611686018427387905', own],
        ['4611686018427387906', other],
      ]);
      expect(findings[0]?.problem).toMatch(
        /^TenantUpdated of tenant-\S+, revision 100, is outside the log: /,
      );
      const problem = 'an event of the tenant is outside the log';
      const told = (await inParts()).map((each) => each.findings);
      expect(told.flat()).toEqual([
        { position: '-7', problem },
        { position: '4611686018427387905', problem },
      ]);
    },
  );

  it.each(changes)('that %s is verified in parts as the whole log is at once', async (_what, change) => {
    await log.rewrite(whole.flatMap((event, index) => change(event, index + 1) ?? []));
    const parts = await inParts();
    const at = ({ position, problem }: { position: string; problem: string }) =>
      `${position}: ${problem.replace(/of tenant-[^\s,]+/, 'of another stream')}`;
    const wanted = (await verifyAudit(log)).findings.filter(
      // A gap in the positions does not show the tenant of the missing event.
      ({ tenantId, problem }) =>
        tenantId === own || /^the event is missing|events .*are missing/.test(problem),
    );
    // With such short parts, the last part does not read up to the end.
    const before = wanted.map(at).filter((told) => !told.includes('at the end of the log'));
    expect(new Set(parts.flatMap(({ findings }) => findings.map(at)))).toEqual(new Set(before));
    const once = await part(undefined, 1_000);
    expect(new Set(once.findings.map(at))).toEqual(new Set(wanted.map(at)));
    expect(once.cursor).toBeUndefined();
    expect(once.events).toBe(parts.reduce((sum, { events }) => sum + events, 0));
    expect(JSON.stringify(parts)).not.toContain(other);
  });

  it('is counted, part by part, up to the first unsigned event', async () => {
    const parts = await inParts();
    expect(parts.length).toBeGreaterThan(2);
    expect(
      parts.map(({ events, checkpoints }) => [events, checkpoints]).filter(([events]) => events),
    ).toEqual([
      [3, 1],
      [2, 1],
    ]);
    expect(await part(undefined, 1_000)).toMatchObject({ events: 5, checkpoints: 2, unsigned: 1 });
  });

  it('is verified up to a time, with the whole stretch around it', async () => {
    expect(await part(undefined, 1_000, day(1))).toMatchObject({ events: 5, unsigned: 0, cursor: undefined });
    expect(await part(undefined, 1_000, day(5))).toMatchObject({ events: 5, unsigned: 1 });
    expect(await part(undefined, 1_000, day(0))).toMatchObject({ events: 3, unsigned: 0, cursor: undefined });
  });

  it('that has more findings than are kept is told with their number', async () => {
    const checkSignatures: CheckSignatures = (events) =>
      Promise.resolve(
        events.flatMap((event) => Array.from({ length: 1_000 }, () => ({ event, problem: 'differs' }))),
      );
    const ofTenant = await verifyTenantAudit({ ...log, checkSignatures, tenantId: own, mostEvents: 1_000 });
    expect(ofTenant.findings).toHaveLength(1_000);
    expect(ofTenant.moreFindings).toBe(5_000);
    await log.rewrite(whole.filter((_event, index) => index !== 12));
    const ofAll = await verifyAudit({ ...log, checkSignatures });
    expect(ofAll.findings).toHaveLength(1_000);
    expect(countFindings(ofAll)).toBe(13_000 + (await verifyAudit(log)).findings.length);
  });

  it('is verified from the cursors of its own verification alone, unchanged', async () => {
    const forged = whole.flatMap(({ position }) => [0, 1, 2].map((count) => [position, count] as const));
    for (const cursor of (await inParts()).flatMap((each) => each.cursor ?? [])) {
      const [position = '', count = '', signature = ''] = cursor.split('.');
      const others = forged.filter(([at, before]) => at !== position || `${before}` !== count);
      for (const [at, before] of [...others, ['0', 0]])
        await expect(part(`${at}.${before}.${signature}`)).rejects.toThrow(UnknownCursorError);
      await expect(part(`${position}.${count}`)).rejects.toThrow(UnknownCursorError);
      const ofOther = verifyTenantAudit({ ...log, tenantId: other, cursor, mostEvents: 1 });
      await expect(ofOther).rejects.toThrow(UnknownCursorError);
    }
  });

  it('is not verified from a cursor whose checkpoint is not in it any more', async () => {
    const [cursor] = (await inParts()).flatMap((each) =>
      /^\d+\.1\./.test(each.cursor ?? '') ? each.cursor : [],
    );
    await log.rewrite(whole.filter((_event, index) => index > 6));
    await expect(part(cursor)).rejects.toThrow(UnknownCursorError);
  });
});
