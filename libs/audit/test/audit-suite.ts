import {
  newEvent,
  newId,
  streams,
  TenantDeleted,
  TokenDeleted,
  TokenSigned,
  TokensRead,
  type VaultEvent,
} from '@token-vault/contracts';
import type { EventStore, Position, StoredEvent } from '@token-vault/event-store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exportAudit } from '../src/export.ts';
import { sealLogOnce } from '../src/seal-regularly.ts';
import { sealLog } from '../src/sealer.ts';
import { verifyAudit } from '../src/verify.ts';
import { watchKeys } from '../src/watched-keys.ts';
import {
  creationOf,
  given,
  openAuditLog,
  positionOf,
  updateOf,
  type AuditLog,
  type LogKind,
} from './audit-log.ts';

const tenants = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'] as const;
const [first, second] = tenants;

let log: AuditLog;
/** Positions by the places of events, as they were before the tampering. */
let positions: readonly Position[];

/** Events of both tenants alternately, at the next places. */
async function write(count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const tenantId = tenants[index % 2] ?? first;
    await log.store.append(streams.tenant(tenantId), [updateOf(tenantId, `name ${index}`)], 'any');
  }
}

const seal = () => sealLog(log.sealer);
const verify = (range: { readonly from?: Position; readonly to?: Position } = {}) =>
  verifyAudit({ ...log, keyRing: watchKeys(log.keyRing), ...range });
/** The places of findings, from 1, and their problems. */
const problems = async (range = {}): Promise<string[]> =>
  (await verify(range)).findings.map(
    ({ position, problem }) => `${positions.indexOf(position as Position) + 1}: ${problem}`,
  );

type Change = (event: StoredEvent, place: number) => StoredEvent | undefined;

/** Changes the stored events without the adapter. An event for which `change` gives undefined is removed. */
async function tamper(change: Change): Promise<void> {
  const events = await log.read();
  positions = events.map(({ position }) => position);
  await log.rewrite(events.flatMap((event, index) => change(event, index + 1) ?? []));
}

const at =
  (wanted: number, change: (event: StoredEvent) => StoredEvent | undefined): Change =>
  (event, place) =>
    place === wanted ? change(event) : event;
const without = (wanted: number): Change => at(wanted, () => undefined);
const replaced = (text: 'data' | 'metadata', from: string, to: string) => (event: StoredEvent) => ({
  ...event,
  [text]: event[text].replaceAll(from, to),
});

/** The guarantees of a sealed log, on any store. */
export function describeAudit(kind: LogKind): void {
  describe(`a sealed log in ${kind}`, () => {
    beforeEach(async () => {
      log = await openAuditLog(kind, tenants);
    });
    afterEach(() => log.end());
    describeTampering();
    describeMisplaced();
    describeMissing();
    describeCheckpoints();
    describeRanges();
    describeSealing();
    describeExport();
  });
}

function describeTampering(): void {
  it('is valid as it was signed, over several checkpoints, in any order of tenants', async () => {
    await write(6);
    expect(await seal()).toBe(2);
    await write(5);
    expect(await seal()).toBe(2);
    expect(await seal()).toBe(0);
    await write(3);
    expect(await verify()).toMatchObject({ findings: [], events: 18, checkpoints: 4, unsealed: 3 });
  });

  it('names an event whose data, metadata, type, version or place was changed', async () => {
    const changes: readonly [(event: StoredEvent) => StoredEvent, RegExp][] = [
      [replaced('data', 'name 2', 'name X'), /not what was signed/],
      [replaced('data', '"name 2"', ' "name 2"'), /not what was signed/],
      [replaced('metadata', '2030', '2031'), /not what was signed/],
      [replaced('metadata', '"t"', ' "t"'), /not what was signed/],
      [
        (event) => ({ ...event, type: 'TenantPlanChanged' }),
        /^3: TenantPlanChanged of tenant-\S+, revision 1, is not what was signed$/,
      ],
      [
        (event) => ({ ...event, type: 'Tenant\u001B[2K\u009B', stream: 'tenant\u0007' }),
        /^3: Tenant\uFFFD\[2K\uFFFD of tenant\uFFFD, revision 1, is not what was signed$/,
      ],
      [(event) => ({ ...event, id: newId() }), /not what was signed/],
      [(event) => ({ ...event, version: event.version + 1 }), /not what was signed/],
      [(event) => ({ ...event, revision: 77 }), /revision 77, is not what was signed/],
    ];
    await write(6);
    await seal();
    const whole = await log.read();
    for (const [change, problem] of changes) {
      await tamper(at(3, change));
      expect(await problems()).toEqual([expect.stringMatching(problem)]);
      await log.rewrite(whole);
    }
    expect(await problems()).toEqual([]);
  });
}

/** The signature decides nothing here, only the revision that it names. */
const signedAt = (revision: number) => `m2.${revision}.${'A'.repeat(22)}`;

function describeMisplaced(): void {
  it('names an event of another entity or of none in the stream of an entity, and one that was signed for another revision, signed by a checkpoint or not', async () => {
    const stream = streams.token(first, 'own');
    const tokenOf = (id: string) =>
      newEvent(TokenDeleted, { token_id: id, token_type: 'token', key_ids: [] }, given(first));
    const signed = (revision: number): VaultEvent => {
      const event = newEvent(TokenSigned, { token_id: 'own', token_type: 'token' }, given(first));
      return { ...event, data: { ...event.data, signature: signedAt(revision) } };
    };
    const reading = newEvent(TokensRead, { operation: 'read', tokens: [] }, given(first));
    await log.store.append(
      stream,
      [signed(0), signed(0), tokenOf('other'), tokenOf('own'), reading],
      'no-stream',
    );
    const found = [
      [2, `TokenSigned of ${stream}, revision 1, was signed for revision 0`],
      [3, `TokenDeleted of ${stream}, revision 2, is not of the token of this stream`],
      [5, `TokensRead of ${stream}, revision 4, is not of the token of this stream`],
    ] as const;
    const told = await Promise.all(
      found.map(async ([place, problem]) => ({
        position: await positionOf(log, place),
        tenantId: first,
        problem,
      })),
    );
    expect(await verify()).toMatchObject({ findings: told, unsealed: 5 });
    await seal();
    expect(await verify()).toMatchObject({ findings: told, unsealed: 0 });
  });
}

const renamed = (event: StoredEvent): StoredEvent => ({
  ...event,
  data: event.data.replace('"name"', ' "name"'),
});

function describeMissing(): void {
  it('shows an event that was dropped', async () => {
    await write(6);
    await seal();
    await tamper(without(3));
    const gaps = log.store.hasDensePositions ? ['3: the event is missing'] : [];
    expect(await problems()).toEqual([...gaps, '5: an event that was signed is missing before this']);
  });

  it('shows events that changed places', async () => {
    await write(6);
    await seal();
    const [one, , three] = await log.read();
    await tamper((event, place) => {
      const other = { 1: three, 3: one }[place];
      return other ? { ...other, position: event.position } : event;
    });
    expect(await problems()).toEqual([
      expect.stringMatching(/^1: TenantUpdated .*revision 1, is not what was signed/),
      expect.stringMatching(/^3: TenantUpdated .*revision 0, is not what was signed/),
    ]);
  });

  it('shows an event that was moved to another tenant', async () => {
    await write(6);
    await seal();
    await tamper(at(3, replaced('metadata', first, second)));
    expect(await problems()).toEqual([
      expect.stringMatching(/^5: an event that was signed is missing before this/),
      expect.stringMatching(/^3: .* was put in/),
    ]);
  });

  it('shows an event that names no tenant, and is sealed further without it', async () => {
    await write(6);
    await seal();
    await write(2);
    await tamper(at(9, replaced('metadata', first, '../../etc')));
    expect(await problems()).toEqual([expect.stringMatching(/^9: TenantUpdated .* names no tenant$/)]);
    expect(await seal()).toBe(1);
    expect(await problems()).toHaveLength(1);
  });

  it('shows a log whose gap was closed', async () => {
    await write(6);
    await seal();
    const before = await log.read();
    await tamper((event, place) => {
      const position = before[place - 2]?.position ?? event.position;
      return place === 3 ? undefined : place > 3 ? { ...event, position } : event;
    });
    expect((await problems()).length).toBeGreaterThan(0);
  });
}

function describeCheckpoints(): void {
  it('shows a forged checkpoint, and appends no checkpoint to it', async () => {
    await write(2);
    await seal();
    await tamper((event) =>
      event.stream === `audit-${first}` ? replaced('data', '"count":1', '"count":9')(event) : event,
    );
    expect(await problems()).toContainEqual(expect.stringContaining('not signed by its tenant'));
    await write(2);
    expect(await seal()).toBe(1);
  });

  it('is still sealed after an attacker inserted a checkpoint of a later position', async () => {
    await write(2);
    await seal();
    await tamper(
      at(4, (event) => {
        const future = { after: '8999999999', through: '9000000000' };
        return { ...event, data: JSON.stringify({ ...(JSON.parse(event.data) as object), ...future }) };
      }),
    );
    await write(2);
    expect(await seal()).toBe(1);
    expect((await verify()).unsealed).toBe(2);
  });

  it('shows that a checkpoint was removed with the events that it covered', async () => {
    for (let round = 0; round < 3; round++) {
      await write(2);
      await seal();
    }
    await tamper(({ stream, revision, ...event }) =>
      stream === `audit-${first}` && revision === 1 ? undefined : { ...event, stream, revision },
    );
    expect(await problems()).toContainEqual(
      expect.stringContaining('a checkpoint before this one is missing'),
    );
  });

  it('shows that its end was cut off, when positions have no gaps', async () => {
    await write(4);
    await seal();
    await write(2);
    await tamper(without(8));
    const told = log.store.hasDensePositions ? ['8: 1 events at the end of the log are missing'] : [];
    expect(await problems()).toEqual(told);
  });

  it('reports the number of events after the last checkpoint, whose changes cannot be detected yet', async () => {
    await write(2);
    await seal();
    await write(2);
    await tamper(at(6, renamed));
    expect(await verify()).toMatchObject({ findings: [], unsealed: 2 });
  });
}

function describeRanges(): void {
  it('is verified from the checkpoints before a place, and only from there on', async () => {
    await write(4);
    await seal();
    await write(4);
    await seal();
    const [three, four, six] = await Promise.all([3, 4, 6].map((place) => positionOf(log, place)));
    await tamper(at(1, renamed));
    const from = four as Position;
    expect(await verify({ from })).toMatchObject({ findings: [], after: from, checkpoints: 2 });
    expect(await problems({ from: three })).toEqual([expect.stringMatching(/^1: /)]);
    expect(await problems({ to: six })).toEqual([expect.stringMatching(/^1: /)]);
    await tamper(at(8, renamed));
    expect(await problems({ from })).toEqual([expect.stringMatching(/^8: /)]);
  });
}

function describeSealing(): void {
  it('that was cut off between two tenants is completed', async () => {
    await write(4);
    const { store, sealer } = log;
    let appends = 0;
    const append: EventStore['append'] = async (...input) => {
      if (appends++ === 1) throw new Error('cut off');
      return store.append(...input);
    };
    await expect(sealLog({ ...sealer, store: { ...store, append } })).rejects.toThrow('cut off');
    await write(2);
    expect(await seal()).toBe(3);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0, checkpoints: 4 });
    const from = await positionOf(log, 4);
    expect(await verify({ from })).toMatchObject({ findings: [], after: from });
  });

  it('never signs an event twice, although another sealer has signed a part of the stretch meanwhile', async () => {
    await write(4);
    const { store, sealer } = log;
    // Another process, whose lock was lost with its connection, continues with a head that it read earlier.
    const until = await positionOf(log, 2);
    const earlier: EventStore = { ...store, head: () => Promise.resolve(until) };
    await sealLog({ ...sealer, store: { ...earlier, readStoredBackwards: none } });
    await write(1);
    await sealLog({ ...sealer, store: { ...store, readStoredBackwards: none } });
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0 });
  });

  it('is done by one process at a time', async () => {
    await write(4);
    const options = { ...log.sealer, pool: log.pool, checkpointsFile: undefined };
    const signed = await Promise.all([sealLogOnce(options), sealLogOnce(options)]);
    expect(signed.filter((count) => count !== 0 && count !== undefined)).toEqual([2]);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0 });
  });

  it('stays valid after a rotation of keys, and leaves out a tenant whose keys are destroyed', async () => {
    await log.store.append(streams.tenant(first), [creationOf(first)], 'no-stream');
    await write(2);
    await seal();
    await log.keyRing.rotateTenant(first);
    await write(2);
    await seal();
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0 });
    const deletion = newEvent(TenantDeleted, { tenant_id: first }, given(first));
    await log.store.append(streams.tenant(first), [deletion], 'any');
    await log.keyRing.destroyAllOfTenant(first);
    await log.store.append(streams.tenant(second), [updateOf(second, 'name')], 'any');
    expect(await seal()).toBe(1);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 1, withoutKeys: [first] });
    await log.pool.query('delete from key_ring.destroyed_tenant');
    expect(await problems()).toEqual([expect.stringMatching(/checked: the vault did not destroy them$/)]);
    await log.store.append(streams.tenant(first), [updateOf(first, 'after')], 'any');
    expect(await problems()).toEqual([expect.stringMatching(/its deletion is not the end of its stream$/)]);
  });

  it('tells of a deleted tenant that has no checkpoint', async () => {
    const tenantId = newId();
    await log.keyRing.createTenantKeys(tenantId);
    const deletion = newEvent(TenantDeleted, { tenant_id: tenantId }, given(tenantId));
    await log.store.append(streams.tenant(tenantId), [creationOf(tenantId), deletion], 'no-stream');
    await log.keyRing.destroyAllOfTenant(tenantId);
    expect(await verify()).toMatchObject({ findings: [], withoutKeys: [tenantId] });
  });

  it('is not valid while the keys of a tenant are missing that is not deleted, or never was', async () => {
    await log.store.append(streams.tenant(first), [creationOf(first)], 'no-stream');
    await write(4);
    await seal();
    await log.store.append(streams.tenant(first), [updateOf(first, 'alone')], 'any');
    await seal();
    const planted = newId();
    await log.store.append(streams.tenant(planted), [updateOf(planted, 'planted')], 'no-stream');
    await log.pool.query('delete from key_ring.tenant_key where tenant_id = $1', [first]);
    // As another process, which has no keys in memory.
    log.keyRing.forgetTenant(first);
    // Anybody can plant the deletion, too.
    const deletion = newEvent(TenantDeleted, { tenant_id: planted }, given(planted));
    await log.store.append(streams.tenant(planted), [deletion], 'any');
    const problem = 'the keys of the tenant are missing, so nothing of it can be checked';
    const told = [
      expect.objectContaining({
        tenantId: first,
        problem: `${problem}: its deletion is not the end of its stream`,
      }),
      expect.objectContaining({ tenantId: planted, problem: `${problem}: its creation is not in the log` }),
    ];
    expect(await verify()).toMatchObject({ findings: told, withoutKeys: [] });
    // Anybody can sign the last stretch of a tenant without keys, so the verification begins at the one before.
    const from = (await log.read()).at(-1)?.position as Position;
    expect((await verify({ from })).after).toBe(await positionOf(log, 5));
  });

  it('of more events than a stretch holds signs several', async () => {
    const stream = streams.tenant(first);
    for (let index = 0; index < 12; index++)
      await log.store.append(stream, Array.from({ length: 500 }, () => updateOf(first, 'many')), 'any'); // prettier-ignore
    expect(await seal()).toBe(2);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 0, checkpoints: 2, events: 6_002 });
    expect(await seal()).toBe(0);
  });
}

async function* none(): AsyncGenerator<never, void> {}

function describeExport(): void {
  it('is exported with each event of its tenant as it is stored, and the checkpoints', async () => {
    await write(5);
    await seal();
    const { store } = log;
    const lines: string[] = [];
    for await (const line of exportAudit({ store, tenantId: first, format: 'jsonl' })) lines.push(line);
    const rows = lines.map((line) => JSON.parse(line) as StoredEvent & { hash: string });
    const stored = (await log.read()).filter(({ metadata }) => metadata.includes(first));
    expect(rows.map(({ hash: _hash, ...event }) => event)).toEqual(stored);
    expect(rows[3]).toMatchObject({ type: 'AuditCheckpointSigned', hash: '' });
    expect(rows[0]?.hash).toMatch(/^[\da-f]{64}$/);
    const csv: string[] = [];
    const from = await positionOf(log, 3);
    for await (const line of exportAudit({ store, tenantId: first, format: 'csv', from })) csv.push(line);
    expect(csv).toHaveLength(3);
    expect(csv[1]).toContain('""name""');
  });
}
