import { newId, streams } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sealLog } from '../src/sealer.ts';
import { notFollowing } from '../src/stretch.ts';
import { verifyTenantAudit } from '../src/verify-tenant.ts';
import { verifyAudit } from '../src/verify.ts';
import { olderForm, openAuditLog, updateOf, type AuditLog, type LogKind } from './audit-log.ts';

const tenantId = '00000000-0000-4000-8000-000000000001';
const notSigned = 'the checkpoint is not signed by its tenant';

type Change = (event: StoredEvent) => StoredEvent;

const replaced =
  (field: 'data' | 'metadata', from: string | RegExp, to: string): Change =>
  (event) => ({ ...event, [field]: event[field].replace(from, to) });

/** The last character of 64 bytes in base64url has four bits that no byte takes. */
const respelled: Change = (event) => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = event.data.at(-3) ?? '';
  return { ...event, data: `${event.data.slice(0, -3)}${alphabet[alphabet.indexOf(last) + 1] ?? ''}"}` };
};

const changes: readonly [name: string, change: Change][] = [
  ['actor', replaced('metadata', '"system","id":"audit"', '"application","id":"audit"')],
  ['field added to the metadata', replaced('metadata', /\}$/, ',"reason":"x"}')],
  ['white space of the metadata', replaced('metadata', '"actor"', ' "actor"')],
  ['version', (event) => ({ ...event, version: 99 })],
  ['field added to the data', replaced('data', /\}$/, ',"x":1}')],
  ['field put into the data', replaced('data', '{', '{"x":1,')],
  ['white space of the data', replaced('data', '"after"', ' "after"')],
  ['public key', replaced('data', /"public_key":"...../, '"public_key":"AAAAA')],
  ['spelling of the signature', respelled],
];

/** What the signature of an older release does not cover. */
const changesOfNew: typeof changes = [
  ['time', replaced('metadata', /"occurred_at":"20/, '"occurred_at":"19')],
  ['id', (event) => ({ ...event, id: newId() })],
  ['trace', replaced('metadata', /"trace_id":"...../, '"trace_id":"00000')],
  ['version of the older form', (event) => ({ ...event, version: 1 })],
];

describe.each<LogKind>(['Postgres', 'EventStoreDB'])('a checkpoint in a log in %s', (kind) => {
  let log: AuditLog;
  beforeEach(async () => {
    log = await openAuditLog(kind, [tenantId]);
  });
  afterEach(() => log.end());

  async function sealOne(): Promise<number> {
    await log.store.append(streams.tenant(tenantId), [updateOf(tenantId, 'name')], 'any');
    return sealLog(log.sealer);
  }

  async function changeLast(change: Change): Promise<void> {
    const events = await log.read();
    const last = events.findLast(({ stream }) => stream === streams.audit(tenantId));
    await log.rewrite(events.map((event) => (event === last ? change(event) : event)));
  }

  /** Of both verifications, which have to agree. */
  async function problems(): Promise<string[]> {
    const whole = await verifyAudit(log);
    const own = await verifyTenantAudit({ ...log, tenantId, mostEvents: 1_000 });
    const told = whole.findings.map(({ problem }) => problem);
    expect(own.findings.map(({ problem }) => problem)).toEqual(told);
    return told;
  }

  async function expectNamed(each: typeof changes): Promise<void> {
    const whole = await log.read();
    for (const [name, change] of each) {
      await changeLast(change);
      expect([name, await problems()]).toEqual([name, [notSigned]]);
      await log.rewrite(whole);
    }
    expect(await problems()).toEqual([]);
  }

  it('is named when anything of it was changed', async () => {
    await sealOne();
    await expectNamed([...changes, ...changesOfNew]);
  });

  it('is not followed by another one when its time was changed', async () => {
    await sealOne();
    await changeLast(replaced('metadata', /"occurred_at":"20/, '"occurred_at":"19'));
    expect(await sealOne()).toBe(0);
  });

  it('of an older release is valid, is named when it is not as that release wrote it, and is followed by a new one', async () => {
    await sealOne();
    await changeLast(await olderForm(log, tenantId));
    await expectNamed(changes);
    expect(await sealOne()).toBe(1);
    expect(await problems()).toEqual([]);
  });

  it('in the form of an older release is named after one of the present form, and is not followed', async () => {
    await sealOne();
    await sealOne();
    await changeLast(await olderForm(log, tenantId));
    expect(await problems()).toContain(notFollowing);
    expect(await sealOne()).toBe(0);
  });
});
