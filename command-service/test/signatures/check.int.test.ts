import {
  ApplicationCreated,
  ApplicationDeleted,
  ApplicationSigned,
  ApplicationUpdated,
  SessionOpened,
  streams,
  TenantCreated,
  TenantSigned,
  tenantStatement,
  TokenCreated,
  TokenCvcPurged,
  TokenDeleted,
  TokenKeysAbandoned,
  TokenSigned,
  TokenUpdated,
  applicationStatement,
  type EventName,
  type VaultEventType,
} from '@token-vault/contracts';
import { startPosition, type EventStore, type StoredEvent } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import { expect, it } from 'vitest';
import { createSignatureCheck } from '../../src/index.ts';
import { signTokenEvents } from '../../src/tokens/signed.ts';
import { useVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const granted = ['application:create', 'application:update', 'token:create'] as const;
const notSigned = 'is not signed';
const notOfVault = 'has a signature that the vault did not make';

/** Appends an event as an attacker, or an older release, with the database could. */
async function append(
  stream: string,
  definition: EventName<VaultEventType>,
  data: object,
  transactionId?: string,
): Promise<void> {
  const { principal, clock, log } = vault;
  const context = createRequestContext({ principal, traceId: 't', now: clock.now(), transactionId });
  await log.append(stream, [context.event(definition, data as never)], 'any');
}

const ownStream = (id: string) => streams.token(vault.principal.tenant.id, id);

/** Appends an event of a token as the vault does. */
async function appendSigned(id: string, definition: EventName<VaultEventType>, data: object): Promise<void> {
  const { principal, clock, log, keyRing } = vault;
  const context = createRequestContext({ principal, traceId: 't', now: clock.now() });
  const event = context.event(definition, data as never);
  const signed = await signTokenEvents(keyRing, principal.tenant.id, [event], await vault.history(id));
  await log.append(ownStream(id), signed, 'any');
}

/** Appends the last content of the token with a change. */
async function forge(id: string, change: object): Promise<void> {
  const last = (await vault.events(ownStream(id))).at(-1);
  await append(ownStream(id), TokenUpdated, { ...last?.data, ...change });
}

/** Releases before version 3 of SessionOpened did not sign it. */
const asStored = (event: StoredEvent): StoredEvent =>
  event.type === SessionOpened.type && !event.data.includes('signature') ? { ...event, version: 2 } : event;

/** Of the tenant: each event that does not check. */
async function problems(
  store: Pick<EventStore, 'readStoredStream'> = vault.log,
  altered = asStored,
): Promise<string[]> {
  const { log, keyRing, principal } = vault;
  const check = createSignatureCheck({ store, keyRing });
  const own = ({ metadata }: StoredEvent) => metadata.includes(principal.tenant.id);
  const found: string[] = [];
  for await (const events of log.readStored(startPosition))
    for (const { event, problem } of await check(events.filter(own).map(altered)))
      found.push(`${event.type} ${event.revision} ${problem}`);
  return found;
}

const card = { type: 'card', data: { number: '4242424242424242', cvc: '123' } };

it('events that the vault wrote check, whatever they are signed upon', async () => {
  await vault.create({ id: 'tok', ...card });
  await vault.update('tok', { containers: ['/a/'] });
  const dropped = await vault.begin();
  await vault.update('tok', { containers: ['/b/'] }, { transaction: dropped });
  await vault.end('rollback', dropped);
  await appendSigned('tok', TokenCvcPurged, { token_id: 'tok', token_type: 'card', key_ids: [] });
  const kept = await vault.begin();
  await vault.update('tok', { metadata: { a: 'b' } }, { transaction: kept });
  await vault.end('commit', kept);
  const as = { ...vault.principal, permissions: [...granted] };
  const body = { name: 'Shop', type: 'private', permissions: ['token:create'] };
  const made = await vault.call('createApplication', { body }, { as });
  const params = { id: (made.body as { id: string }).id };
  await vault.call(
    'updateApplication',
    { params, body: { name: 'b', permissions: ['token:create'] } },
    { as },
  );
  await vault.call('regenerateApplicationKey', { params }, { as });
  const types = (await vault.events()).map(({ type }) => type);
  expect(types).toEqual(expect.arrayContaining(['TokenCvcPurged', 'ApplicationKeyRegenerated']));
  expect(await problems()).toEqual([]);
});

it.each([
  ['without a signature', { signature: undefined }, notSigned],
  ['with another signature', { signature: `m2.1.${'A'.repeat(22)}` }, notOfVault],
  ['with the signature of another content', { containers: ['/mine/'] }, notOfVault],
])('an event of a token %s is named', async (_what, change, problem) => {
  await vault.create({ id: 'tok', type: 'token', data: 'S', containers: ['/pci/'] });
  await forge('tok', change);
  expect(await problems()).toEqual([`TokenUpdated 1 ${problem}`]);
});

it.each([
  ['other hashes', { index_hashes: ['A'.repeat(43)] }],
  ['no hashes', { index_hashes: [] }],
])('an event of a token that was given %s beside its signature is named', async (_what, change) => {
  await vault.create({ id: 'tok', type: 'token', data: 'S', search_indexes: ['{{ data }}'] });
  const altered = (stored: StoredEvent) =>
    stored.type === 'TokenCreated'
      ? { ...stored, data: JSON.stringify({ ...(JSON.parse(stored.data) as object), ...change }) }
      : stored;
  expect(await problems()).toEqual([]);
  expect(await problems(vault.log, altered)).toEqual([`TokenCreated 0 ${notOfVault}`]);
});

it.each([
  ['of a hundred changes', 1, 100],
  ['of one change each, a hundred of them', 100, 1],
])(
  'a purge upon the state before transactions that were rolled back, %s, checks',
  async (_what, transactions, changes) => {
    await vault.create({ id: 'tok', ...card });
    for (let each = 0; each < transactions; each += 1) {
      const dropped = await vault.begin();
      for (let change = 0; change < changes; change += 1)
        await vault.update('tok', { metadata: { a: String(change) } }, { transaction: dropped });
      await vault.end('rollback', dropped);
    }
    await appendSigned('tok', TokenCvcPurged, { token_id: 'tok', token_type: 'card', key_ids: [] });
    expect(await problems()).toEqual([]);
  },
);

it('a false signature is named behind events that change nothing, in a transaction each', async () => {
  await vault.create({ id: 'tok', ...card });
  const purge = { token_id: 'tok', token_type: 'card', key_ids: [] };
  const abandoned = { token_id: 'tok', abandoned_key_ids: [] };
  for (let each = 0; each < 8; each += 1)
    await append(ownStream('tok'), TokenKeysAbandoned, abandoned, crypto.randomUUID());
  await append(ownStream('tok'), TokenCvcPurged, { ...purge, signature: `m2.9.${'A'.repeat(22)}` });
  const id = crypto.randomUUID();
  const stream = streams.application(vault.principal.tenant.id, id);
  for (let each = 0; each < 8; each += 1)
    await append(stream, ApplicationDeleted, { application_id: id }, crypto.randomUUID());
  const grants = { name: 'planted', permissions: [], rules: [] };
  const signature = `m2.8.${'A'.repeat(22)}`;
  await append(stream, ApplicationUpdated, { application_id: id, ...grants, signature });
  expect(await problems()).toEqual([`TokenCvcPurged 9 ${notOfVault}`, `ApplicationUpdated 8 ${notOfVault}`]);
});

it('an event that holds the whole state is named behind any number of transactions', async () => {
  await vault.create({ id: 'tok', type: 'token', data: 'S' });
  for (let each = 0; each < 70; each += 1) {
    const dropped = await vault.begin();
    await vault.update('tok', { metadata: { a: String(each) } }, { transaction: dropped });
    await vault.end('rollback', dropped);
  }
  expect(await problems()).toEqual([]);
  await forge('tok', { containers: ['/mine/'], signature: `m2.71.${'A'.repeat(22)}` });
  expect(await problems()).toEqual([`TokenUpdated 71 ${notOfVault}`]);
});

it('a false signature behind a hundred changes of one transaction is named', async () => {
  await vault.create({ id: 'tok', ...card });
  const kept = await vault.begin();
  for (let change = 0; change < 100; change += 1)
    await vault.update('tok', { metadata: { a: String(change) } }, { transaction: kept });
  await vault.end('commit', kept);
  const { signature } = ((await vault.events(ownStream('tok'))).at(-1)?.data ?? {}) as { signature?: string };
  await append(ownStream('tok'), TokenCvcPurged, {
    token_id: 'tok',
    token_type: 'card',
    key_ids: [],
    signature,
  });
  expect(await problems()).toEqual([`TokenCvcPurged 101 ${notOfVault}`]);
});

it('an event without a signature is named also when a rolled back transaction hides it from the next change', async () => {
  await vault.create({ id: 'tok', ...card });
  const dropped = await vault.begin();
  await vault.end('rollback', dropped);
  const [created] = await vault.events(ownStream('tok'));
  await append(ownStream('tok'), TokenUpdated, { ...created?.data, signature: undefined }, dropped);
  await appendSigned('tok', TokenCvcPurged, { token_id: 'tok', token_type: 'card', key_ids: [] });
  expect(await problems()).toEqual([`TokenUpdated 1 ${notSigned}`]);
});

it('an event without a signature is named also in a stream of its own, and nothing when the tenant is deleted', async () => {
  const application = { name: 'mine', type: 'private', permissions: [], rules: [] };
  const id = crypto.randomUUID();
  const stream = streams.application(vault.principal.tenant.id, id);
  const created = { application_id: id, ...application, key_hash: 'a'.repeat(64) };
  await append(stream, ApplicationCreated, created);
  expect(await problems()).toEqual([`ApplicationCreated 0 ${notSigned}`]);
  await vault.keyRing.destroyAllOfTenant(vault.principal.tenant.id);
  expect(await problems()).toEqual([]);
});

it('events of an older release check once the upgrade has signed their state, those that are planted afterwards do not', async () => {
  const { tenant } = await vault.oldTenant();
  const stream = streams.application(tenant.id, 'b0000000-0000-4000-8000-000000000001');
  const named = { application_id: 'b0000000-0000-4000-8000-000000000001', name: 'old' };
  const grants = { permissions: [], rules: [] };
  const keyHash = 'a'.repeat(64);
  const plan = { plan: 'enterprise', settings: {} };
  await append(streams.tenant(tenant.id), TenantCreated, { tenant_id: tenant.id, name: 'Acme', ...plan });
  await append(stream, ApplicationCreated, { ...named, ...grants, type: 'private', key_hash: keyHash });
  await append(stream, ApplicationUpdated, { ...named, ...grants });
  await vault.create({ id: 'new', type: 'token', data: 'S' });
  const creation = (await vault.events(ownStream('new')))[0]?.data;
  await append(ownStream('gone'), TokenCreated, { ...creation, token_id: 'gone', signature: undefined });
  const hashes = await vault.keyRing.hashes(tenant.id);
  const state = { id: named.application_id, name: 'old', type: 'private', ...grants, keyHash };
  const signature = hashes.sign(
    applicationStatement({ ...state, keyId: undefined, keys: [], expiresAt: undefined }),
    2,
  );
  await append(stream, ApplicationSigned, { application_id: named.application_id, signature });
  await append(streams.tenant(tenant.id), TenantSigned, {
    tenant_id: tenant.id,
    accepts_unsigned: false,
    signature: hashes.sign(tenantStatement({ ...plan, acceptsUnsigned: false }), 1),
  });
  expect(await problems()).toEqual([]);
  await append(ownStream('late'), TokenCreated, { ...creation, token_id: 'late', signature: undefined });
  await appendSigned('late', TokenSigned, { token_id: 'late', token_type: 'token' });
  await vault.keyRing.refuseUnsigned(tenant.id);
  expect(await problems()).toEqual([]);
  await append(stream, ApplicationUpdated, { ...named, ...grants });
  await append(ownStream('planted'), TokenCreated, {
    ...creation,
    token_id: 'planted',
    signature: undefined,
  });
  expect(await problems()).toEqual([`ApplicationUpdated 3 ${notSigned}`, `TokenCreated 0 ${notSigned}`]);
});

it('events without a signature are named also before an honest creation of the same token, and before what follows it', async () => {
  await vault.create({ id: 'other', type: 'token', data: 'S' });
  const [created] = await vault.events(ownStream('other'));
  const life = { token_id: 'tok', token_type: 'token', key_ids: [] };
  const content = { ...created?.data, token_id: 'tok', signature: undefined };
  await append(ownStream('tok'), TokenCvcPurged, life);
  await append(ownStream('tok'), TokenUpdated, content);
  await append(ownStream('tok'), TokenCreated, content);
  await append(ownStream('tok'), TokenDeleted, life);
  await vault.create({ id: 'tok', type: 'token', data: 'S' });
  await vault.update('tok', { metadata: { a: 'b' } });
  expect(await problems()).toEqual([
    `TokenCvcPurged 0 ${notSigned}`,
    `TokenUpdated 1 ${notSigned}`,
    `TokenCreated 2 ${notSigned}`,
  ]);
});

it('a session without a signature is named, unless an older release may have opened it', async () => {
  const tenantId = vault.principal.tenant.id;
  const hashes = await vault.keyRing.hashes(tenantId);
  const application = { name: 'old', type: 'private', permissions: [], rules: [] };
  const [id, keyHash] = [crypto.randomUUID(), 'a'.repeat(64)];
  const stream = streams.application(tenantId, id);
  const open = (by: string) => {
    const session = { session_id: crypto.randomUUID(), application_id: by };
    const secrets = { key_hash: keyHash, nonce_hash: keyHash, expires_at: '2030-01-01T00:03:00Z' };
    return append(streams.session(tenantId, session.session_id), SessionOpened, { ...session, ...secrets });
  };
  const statement = applicationStatement({
    ...{ id, keyHash, keyId: undefined, keys: [], expiresAt: undefined },
    ...application,
  });
  const { added: _added, ...inForm1 } = statement;
  const signature = hashes.sign(inForm1, 0);
  await append(stream, ApplicationCreated, { ...{ application_id: id, key_hash: keyHash, signature }, ...application }); // prettier-ignore
  await open(id);
  expect(await problems()).toEqual([]);
  await append(stream, ApplicationSigned, { application_id: id, signature: hashes.sign(statement, 1) });
  await open(id);
  expect(await problems()).toEqual([`SessionOpened 0 ${notSigned}`]);
  await open(crypto.randomUUID());
  expect(await problems()).toHaveLength(2);
  const gone = crypto.randomUUID();
  await append(streams.application(tenantId, gone), ApplicationDeleted, { application_id: gone });
  await open(gone);
  expect(await problems()).toHaveLength(3);
  const body = { name: 'New', type: 'private', permissions: ['token:create'] };
  const as = { ...vault.principal, permissions: [...granted] };
  await open(((await vault.call('createApplication', { body }, { as })).body as { id: string }).id);
  expect(await problems()).toEqual(Array(4).fill(`SessionOpened 0 ${notSigned}`));
});

it('a stream of planted events is read once, not once for each of them', async () => {
  const many = 60;
  for (let each = 0; each < many; each += 1)
    await append(ownStream('many'), TokenCvcPurged, { token_id: 'many', token_type: 'card', key_ids: [] });
  let read = 0;
  async function* readStoredStream(...range: Parameters<EventStore['readStoredStream']>) {
    for await (const event of vault.log.readStoredStream(...range)) {
      if (event.stream === ownStream('many')) read += 1;
      yield event;
    }
  }
  expect(await problems({ readStoredStream })).toHaveLength(many);
  expect(read).toBeLessThan(2 * many);
});
