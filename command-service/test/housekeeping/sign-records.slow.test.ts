import {
  invocationPlace,
  ReactorInvoked,
  ReactorFailed,
  ReactorStarted,
  ReactorUpdated,
  reactorStatement,
  streams,
  TenantCreated,
  type EventName,
  type Reactor,
  type VaultEventType,
} from '@token-vault/contracts';
import { seal, secret } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { signGrants } from '../../src/upgrade/sign-grants.ts';
import { signRecords } from '../../src/upgrade/sign-records.ts';
import { openHouse, type House } from './house.ts';

const body = { name: 'Pay', code: 'module.exports = async () => ({});', configuration: { KEY: 'value' } };
const altered = { code: 'record_altered' };

let house: House;
let tenantId: string;
beforeAll(async () => {
  house = await openHouse();
});
beforeEach(async () => {
  tenantId = (await house.vault.oldTenant()).tenant.id;
});
afterAll(() => house.close());

async function append(stream: string, definition: EventName<VaultEventType>, data: object) {
  const { principal, clock, log } = house.vault;
  const context = createRequestContext({ principal, traceId: 'old', now: clock.now() });
  await log.append(stream, [context.event(definition, data as never)], 'any');
  await house.settle();
}

/** Gives whether records of the tenant without a signature are still accepted. */
async function signAll(between = () => Promise.resolve()): Promise<boolean> {
  const { log: store, keyRing, pool, clock } = house.vault;
  const dependencies = { store, keyRing, pool, clock, logger: silentLogger };
  const { signal } = new AbortController();
  await signGrants(dependencies, signal);
  await between();
  await signRecords(dependencies, signal);
  return (await keyRing.hashes(tenantId)).acceptsUnsigned;
}

async function upgrade(): Promise<boolean> {
  const acceptsUnsigned = await signAll(() => house.settle());
  await house.settle();
  return acceptsUnsigned;
}

const oldTenant = () =>
  append(streams.tenant(tenantId), TenantCreated, {
    tenant_id: tenantId,
    name: 'Acme',
    plan: 'enterprise',
    settings: {},
  });

/** A reactor as a release before signatures of reactors wrote it. */
async function oldReactor(): Promise<string> {
  const { id } = (await house.vault.call('createReactor', { body })).body as Reactor;
  const stream = streams.reactor(tenantId, id);
  const [event] = await house.vault.events(stream);
  await append(stream, ReactorUpdated, { ...event?.data, signature: undefined });
  return id;
}

/** Appends an invocation in the form of an older release and gives its id. */
async function oldInvocation(reactorId: string): Promise<string> {
  const id = crypto.randomUUID();
  const place = invocationPlace(tenantId, id, 'args');
  const { key, stored } = await house.vault.keyRing.createDataKey({
    ...place,
    purpose: 'args',
    destroyAfter: new Date('2099-01-01T00:00:00Z'),
    durability: 'own',
  });
  await stored;
  await append(streams.invocation(tenantId, id), ReactorInvoked, {
    invocation_id: id,
    reactor_id: reactorId,
    reactor_revision: 1,
    mode: 'async',
    args: seal(key, place, secret({ a: 1 })),
    token_ids: [],
    timeout_ms: 10_000,
    depth: 0,
  });
  return id;
}

const patch = (id: string) => house.vault.call('patchReactor', { params: { id }, body: { name: 'Other' } });
const typesOf = async (stream: string) => (await house.vault.events(stream)).map(({ type }) => type);

it('a reactor of an older release is accepted until all are signed, and afterwards with its signature', async () => {
  await oldTenant();
  const id = await oldReactor();
  const late = await oldReactor();
  await patch(id);
  expect(await upgrade()).toBe(false);
  expect(await typesOf(streams.reactor(tenantId, id))).toEqual([
    'ReactorCreated',
    'ReactorUpdated',
    'ReactorUpdated',
  ]);
  expect(await typesOf(streams.reactor(tenantId, late))).toEqual([
    'ReactorCreated',
    'ReactorUpdated',
    'ReactorSigned',
  ]);
  await expect(patch(late)).resolves.toBeDefined();
  const planted = await house.vault.events(streams.reactor(tenantId, id));
  await append(streams.reactor(tenantId, id), ReactorUpdated, {
    ...planted.at(-1)?.data,
    code: 'stolen',
    signature: undefined,
  });
  await expect(patch(id)).rejects.toMatchObject(altered);
  expect(await upgrade()).toBe(false);
  await expect(patch(id)).rejects.toMatchObject(altered);
  expect(await typesOf(streams.reactor(tenantId, id))).not.toContain('ReactorSigned');
});

it.each([
  ['before the records are signed', 'rm_tenants.tenant'],
  ['after the records were signed', 'rm_reactors.reactor'],
])('records without a signature are not refused while a read model is behind: %s', async (_, table) => {
  await oldTenant();
  await oldReactor();
  const client = await house.vault.pool.connect();
  await client.query(`begin; lock table ${table} in share mode`);
  const acceptsUnsigned = await signAll().finally(() => client.query('rollback'));
  client.release();
  expect(acceptsUnsigned).toBe(true);
  expect(await upgrade()).toBe(false);
});

it('its row is signed too', async () => {
  await oldTenant();
  const id = await oldReactor();
  await upgrade();
  const { rows } = await house.vault.pool.query<{ code: string; configuration: string; signature: string }>(
    'select code, configuration, signature from rm_reactors.reactor where id = $1',
    [id],
  );
  const [row] = rows;
  if (!row) throw new Error('there is no row');
  const hashes = await house.vault.keyRing.hashes(tenantId);
  const { code, configuration, signature } = row;
  const statement = reactorStatement({ id, name: 'Pay', code, configuration, applicationId: undefined });
  expect(hashes.isSigned(statement, signature)).toBe(true);
});

it('an unfinished invocation is signed; one that is running is signed after its end', async () => {
  await oldTenant();
  const reactorId = await oldReactor();
  const waiting = await oldInvocation(reactorId);
  const running = await oldInvocation(reactorId);
  const stream = streams.invocation(tenantId, running);
  const started = { invocation_id: running, reactor_id: reactorId, runner_id: 'r' };
  await append(stream, ReactorStarted, { ...started, deadline: '2099-01-01T00:00:00Z' });
  expect(await upgrade()).toBe(true);
  expect(await typesOf(streams.invocation(tenantId, waiting))).toEqual([
    'ReactorInvoked',
    'ReactorInvocationSigned',
  ]);
  expect(await typesOf(stream)).toEqual(['ReactorInvoked', 'ReactorStarted']);
  const [invoked] = await house.vault.events(stream);
  await append(stream, ReactorFailed, {
    invocation_id: running,
    reactor_id: reactorId,
    mode: 'async',
    status: 500,
    reason: 'lost',
    problem: (invoked as RecordedEvent<'ReactorInvoked'>).data.args,
  });
  expect(await upgrade()).toBe(false);
  expect((await typesOf(stream)).at(-1)).toBe('ReactorInvocationSigned');
  expect(await upgrade()).toBe(false);
});
