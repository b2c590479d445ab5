import type { Principal } from '@token-vault/access';
import { managementPermissions, streams } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { anyone, refusal } from '../tokens/vault.ts';
import { recordingLogger, openHouse, withoutTail, type House } from './house.ts';

interface Made {
  readonly id: string;
  readonly key: string;
}
/** A caller, and the applications that it depends on. */
interface Caller {
  readonly principal: Principal;
  readonly applicationIds: readonly string[];
}

let house: House;
beforeAll(async () => {
  house = await openHouse();
});
beforeEach(async () => {
  house.vault.clock.set('2030-01-01T00:00:00Z');
  await house.vault.newTenant();
});
afterAll(() => house.close());

const soon = '2030-01-01T00:00:10Z';
const tenSeconds = 10_000;
const locked = refusal('token_locked');

const asManager = (): { as: Principal } => ({
  as: anyone({
    tenant: house.vault.principal.tenant,
    applicationType: 'management',
    permissions: [...managementPermissions],
    rules: [],
  }),
});

async function application(type: 'public' | 'private', more: object = {}): Promise<Caller> {
  const body = { name: 'a', type, permissions: ['token:create', 'token:update'], ...more };
  const { id, key } = (await house.vault.call('createApplication', { body }, asManager())).body as Made;
  const who = { actor: { kind: 'application', id } as const, applicationId: id, applicationType: type };
  const { tenant } = house.vault.principal;
  return { principal: anyone({ tenant, ...who, keyHash: hashApiKey(key) }), applicationIds: [id] };
}

async function session(more: object = {}): Promise<Caller> {
  const { vault } = house;
  const [opener, authorizer] = [await application('public'), await application('private')];
  const opened = await vault.call('createSession', {}, { as: opener.principal });
  const { session_key: key, nonce } = opened.body as { session_key: string; nonce: string };
  const body = { nonce, permissions: ['token:update'], ...more };
  await vault.call('authorizeSession', { body }, { as: authorizer.principal });
  const actor = { kind: 'session', id: nonce.slice(0, 36) } as const;
  return {
    principal: { ...opener.principal, actor, keyHash: hashApiKey(key) },
    applicationIds: [...opener.applicationIds, ...authorizer.applicationIds],
  };
}

/** A token that an open transaction of the caller has written, and one that it has created. */
async function hold({ principal }: Pick<Caller, 'principal'>) {
  const { vault } = house;
  const { id } = await vault.create({ type: 'token', data: 'x' });
  const transaction = await vault.begin({ as: principal });
  await vault.update(id, { metadata: { a: 'enlisted' } }, { transaction, as: principal });
  await vault.create({ type: 'token', data: 'y' }, { transaction, as: principal });
  await expect(vault.update(id, { metadata: { a: 'other' } })).rejects.toMatchObject(locked);
  return { id, transaction };
}

async function sweep(): Promise<void> {
  await house.settle();
  const store = withoutTail(house.vault.log);
  const { failures } = await house.keep({ store, logger: recordingLogger() }).runOnce();
  expect(failures).toBe(0);
}

const at = (index: number, { applicationIds }: Caller) => ({ params: { id: applicationIds[index] ?? '' } });
const deleting = (index: number) => (caller: Caller) =>
  house.vault.call('deleteApplication', at(index, caller), asManager());
const regenerating = (index: number) => (caller: Caller) =>
  house.vault.call('regenerateApplicationKey', at(index, caller), asManager());
const waiting = async () => house.vault.clock.advance(tenSeconds);

describe('an open transaction', () => {
  it.each<[string, () => Promise<Caller>, (caller: Caller) => Promise<unknown>]>([
    ['an application that is deleted', () => application('private'), deleting(0)],
    ['an application with a new key', () => application('public'), regenerating(0)],
    ['an application that has expired', () => application('private', { expires_at: soon }), waiting],
    ['a session that has expired', () => session({ expires_at: soon }), waiting],
    ['a session whose opener is deleted', session, deleting(0)],
    ['a session whose opener has a new key', session, regenerating(0)],
    ['a session whose authorizer is deleted', session, deleting(1)],
    ['a session whose authorizer has a new key', session, regenerating(1)],
  ])('of %s is rolled back', async (_who, make, end) => {
    const { vault } = house;
    const caller = await make();
    const { id, transaction } = await hold(caller);
    await end(caller);
    await sweep();
    expect((await vault.update(id, { metadata: { a: 'other' } })).metadata).toEqual({ a: 'other' });
    await expect(vault.end('commit', transaction, { as: caller.principal })).rejects.toMatchObject(
      refusal('transaction_not_open'),
    );
    expect(await vault.keys()).toEqual([`${id} data`]);
    const events = await vault.events(streams.transaction(vault.principal.tenant.id, transaction));
    expect(events.at(-1)).toMatchObject({
      type: 'TransactionRolledBack',
      metadata: { actor: { kind: 'system', id: 'transaction-expiry' } },
    });
  });

  it.each<[string, () => Promise<Caller>]>([
    ['an application', () => application('private')],
    ['a session', session],
  ])('of %s stays as long as its caller does, also when that was renamed', async (_who, make) => {
    const { vault } = house;
    const caller = await make();
    const { id, transaction } = await hold(caller);
    const body = { name: 'renamed', permissions: ['token:create', 'token:update'] };
    for (const index of caller.applicationIds.keys())
      await vault.call('updateApplication', { ...at(index, caller), body }, asManager());
    await sweep();
    await expect(vault.update(id, { metadata: { a: 'other' } })).rejects.toMatchObject(locked);
    await vault.end('commit', transaction, { as: caller.principal });
  });

  it('without the hash of its key, as in an older release, stays open until its time limit', async () => {
    const { vault } = house;
    const { id, transaction } = await hold({ principal: anyone({ tenant: vault.principal.tenant }) });
    await sweep();
    await expect(vault.update(id, { metadata: { a: 'other' } })).rejects.toMatchObject(locked);
    await vault.end('commit', transaction);
  });
});
