import { randomUUID } from 'node:crypto';
import { fieldsOf } from '@token-vault/test-support';
import {
  revisionOf,
  streams,
  TokenCvcPurged,
  tokenStatementOf,
  TokenUpdated,
  type NewDataOf,
} from '@token-vault/contracts';
import { TenantKeysMissingError } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { beforeEach, describe, expect, it } from 'vitest';
import { createTokenReplay, createTokenUse } from '../../src/index.ts';
import { signTokenEvents } from '../../src/tokens/signed.ts';
import { anyone, noActor, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
beforeEach(async () => {
  await vault.create({ id: 'tok', type: 'token', data: { a: 1 }, containers: ['/pci/'], mask: 'X' });
});

const altered = { code: 'record_altered', status: 500 };
const contextOf = (principal = vault.principal) =>
  createRequestContext({ principal, traceId: 'thief', now: vault.clock.now() });
const replayOf = (store: TestVault['log']) => {
  const { keyRing, clock } = vault;
  const audit = createAuditTrail(store);
  const expressions = createExpressions(createInlineWorkers());
  return createTokenReplay({ store, keyRing, clock, audit, findActor: noActor, expressions });
};
const answered = { id: 'tok', createdAt: '2030-01-01T00:00:00.000Z', at: [], by: 'create' } as const;

/** Appends an event as an attacker with the database could: the last content of the token with a change. */
async function forge(change: object): Promise<void> {
  const stream = streams.token(vault.principal.tenant.id, 'tok');
  const last = (await vault.events(stream)).at(-1);
  const data = { ...last?.data, ...change } as NewDataOf<'TokenUpdated'>;
  const event = contextOf().event(TokenUpdated, data);
  await vault.log.append(stream, [event], 'any');
}

const nothing = async () => undefined;

it.each([
  ['another container', { containers: ['/mine/'], signature: undefined }],
  ['a further container under the old signature', { containers: ['/pci/', '/mine/'] }],
  ['another mask under the old signature', { mask: '{{ data }}' }],
  ['the content of before, at a later place', {}],
])('a forged event with %s is not accepted', async (_what, change) => {
  await forge(change);
  const { log: store, keyRing, clock } = vault;
  const use = createTokenUse({ store, keyRing, clock });
  await expect(
    use.check({ tokens: new Map([['tok', 'args.a']]), ambiguous: new Map(), hasFilters: false }, contextOf()),
  ).rejects.toMatchObject(altered);
  await expect(use.open(['tok'], contextOf(), nothing)).rejects.toMatchObject(altered);
  const replay = replayOf(store);
  await expect(
    replay.show([answered], contextOf(), {
      present: async () => contextOf(),
      isOnRecord: false,
    }),
  ).rejects.toMatchObject(altered);
  await expect(replay.facts(['tok'], contextOf())).rejects.toMatchObject(altered);
  await expect(vault.update('tok', { metadata: { a: 'b' } })).rejects.toMatchObject(altered);
  await expect(vault.remove('tok')).resolves.toBeUndefined();
});

it('a token whose stream has the events of another is not accepted', async () => {
  const [created] = await vault.events(streams.token(vault.principal.tenant.id, 'tok'));
  if (!created) throw new Error('no event');
  const stream = streams.token(vault.principal.tenant.id, 'victim');
  await vault.log.append(stream, [{ ...created, id: randomUUID() }], 'no-stream');
  await expect(vault.update('victim', { data: { a: 2 } })).rejects.toMatchObject(altered);
  await expect(vault.remove('victim')).rejects.toMatchObject(altered);
  const { log: store, keyRing, clock } = vault;
  await expect(
    createTokenUse({ store, keyRing, clock }).open(['victim'], contextOf(), nothing),
  ).rejects.toMatchObject(altered);
});

it('nothing but the end of a cvc is stored without a signature while the keys of the tenant are missing', async () => {
  const { id: tenantId } = vault.principal.tenant;
  const [created] = await vault.events(streams.token(tenantId, 'tok'));
  if (created?.type !== 'TokenCreated') throw new Error('no event');
  const hashes = () => Promise.reject(new TenantKeysMissingError(tenantId));
  await expect(signTokenEvents({ hashes }, tenantId, [created])).rejects.toThrow(TenantKeysMissingError);
  const purged = contextOf().event(TokenCvcPurged, { token_id: 'tok', token_type: 'token', key_ids: [] });
  expect(await signTokenEvents({ hashes }, tenantId, [purged])).toEqual([purged]);
});

it('every change of a token is signed at its own place', async () => {
  await vault.create({ id: 'card', type: 'card', data: { number: '4242424242424242', cvc: '123' } });
  await vault.update('card', { containers: ['/a/'] });
  const transaction = await vault.begin();
  await vault.update('card', { containers: ['/b/'] }, { transaction });
  await vault.end('commit', transaction);
  const events = await vault.events(streams.token(vault.principal.tenant.id, 'card'));
  expect(events.map((event) => revisionOf(fieldsOf(event).signature as string))).toEqual([0, 1, 2]);
  await expect(vault.update('card', { containers: ['/c/'] })).resolves.toBeDefined();
});

/** The log in which an attacker has changed the newest event of the token. */
async function alteredLog(change: (event: RecordedEvent) => RecordedEvent): Promise<TestVault['log']> {
  const newest = (await vault.events(streams.token(vault.principal.tenant.id, 'tok'))).at(-1);
  return {
    ...vault.log,
    async *readStream(...range) {
      for await (const event of vault.log.readStream(...range))
        yield event.id === newest?.id ? change(event) : event;
    },
  };
}

const asReading = (event: RecordedEvent): RecordedEvent => ({
  ...event,
  type: 'TokensRead',
  data: { operation: 'read', tokens: [] },
});

it.each<[string, (event: RecordedEvent) => RecordedEvent]>([
  [
    'names a transaction that never was',
    (event) => ({
      ...event,
      metadata: { ...event.metadata, transaction_id: randomUUID() },
    }),
  ],
  ['is called a reading', asReading],
])('a token is refused while its newest event %s', async (_what, change) => {
  await vault.update('tok', { containers: ['/secret/'] });
  const store = await alteredLog(change);
  const { keyRing, clock } = vault;
  await expect(
    createTokenUse({ store, keyRing, clock }).open(['tok'], contextOf(), nothing),
  ).rejects.toMatchObject(altered);
});

type Metadata = RecordedEvent['metadata'];
/** Gives the event the metadata that an attacker chooses, with the type and version of a creation. */
const asCreation = (event: RecordedEvent, metadata: Partial<Metadata>): RecordedEvent =>
  ({ ...event, type: 'TokenCreated', metadata: { ...event.metadata, ...metadata } }) as RecordedEvent;

/** Repeats the create of the token, by a caller that may only create, after the attacker changed the newest event of the token. */
async function repeatCreate(change: (event: RecordedEvent) => RecordedEvent) {
  const store = await alteredLog(change);
  const { tenant } = vault.principal;
  const rules = anyone().rules.map((rule) => ({ ...rule, permissions: ['token:create' as const] }));
  const context = contextOf({ ...anyone({ rules }), tenant });
  const shown = await replayOf(store).show([answered], context, {
    present: async () => context,
    isOnRecord: false,
  });
  return shown[0]?.token;
}

describe('the repeat of a create does not show what others wrote under the id', () => {
  const first = { occurred_at: answered.createdAt };
  beforeEach(() => vault.clock.set('2030-01-01T00:01:00Z'));

  it('when their creation is given the time of the first one', async () => {
    await vault.remove('tok');
    await vault.create({ id: 'tok', type: 'token', data: 'THEIRS' });
    await expect(repeatCreate((event) => event)).rejects.toMatchObject({ code: 'not_found' });
    await expect(repeatCreate((event) => asCreation(event, first))).rejects.toMatchObject(altered);
  });

  it('when their change is made a creation', async () => {
    await vault.update('tok', { data: 'THEIRS' });
    expect(await repeatCreate((event) => event)).not.toHaveProperty('data', 'THEIRS');
    await expect(repeatCreate((event) => asCreation(event, first))).rejects.toMatchObject(altered);
  });

  it('nor names another as its maker', async () => {
    const actor = { kind: 'application', id: 'somebody' } as const;
    await expect(repeatCreate((event) => asCreation(event, { actor }))).rejects.toMatchObject(altered);
  });
});

it('a token that an older release signed is accepted, and the next change is signed with who made it and when', async () => {
  const before = await vault.stored('tok');
  if (!before) throw new Error('the token is not there');
  const { added: _added, ...ofOlderRelease } = tokenStatementOf(before);
  const hashes = await vault.keyRing.hashes(vault.principal.tenant.id);
  await forge({ signature: hashes.sign(ofOlderRelease, 1) });
  await vault.update('tok', { metadata: { a: 'b' } });
  const events = await vault.events(streams.token(vault.principal.tenant.id, 'tok'));
  const forms = events.map((event) => (fieldsOf(event).signature as string).slice(0, 5));
  expect(forms).toEqual(['m2.0.', 'm1.1.', 'm2.2.']);
});
