import { randomUUID } from 'node:crypto';
import { invocationPlace, streams, type ParentRun, type Reactor, reactBody } from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import { KeysNotStoredError } from '@token-vault/event-store';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import type { z } from 'zod';
import { createInvocationOutcomes, type InvocationOutcomes } from '../../src/index.ts';
import { Invocations } from '../../src/invocations/handlers.ts';
import { noActor, anyone, openVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
let outcomes: InvocationOutcomes;
let reactor: Reactor;
beforeAll(async () => {
  vault = await openVault();
  outcomes = createInvocationOutcomes({ store: vault.log, logger: silentLogger });
});
beforeEach(async () => {
  const { tenant } = await vault.newTenant();
  const body = { name: 'R', code: 'module.exports = async () => ({});', configuration: {} };
  const manager = anyone({ tenant, applicationType: 'management' });
  reactor = (await vault.call('createReactor', { body }, { as: manager })).body as Reactor;
});
afterAll(async () => {
  await outcomes.close();
  await vault.close();
});

function react(
  body: Partial<z.input<typeof reactBody>>,
  store = vault.faults.store,
  more: { readonly onWaiting?: () => void; readonly parents?: readonly ParentRun[] } = {},
) {
  const { keyRing, clock, principal } = vault;
  const audit = createAuditTrail(store);
  const how = { allowsPlainHttp: false, startWithinMs: 1, findActor: noActor };
  const dependencies = { store, keyRing, clock, audit, outcomes, ...how };
  const context = createRequestContext({ principal, traceId: randomUUID(), now: clock.now(), ...more });
  return new Invocations(dependencies).react(reactor.id, reactBody.parse(body), context);
}
const typesOfRun = async () =>
  (await vault.events())
    .filter(({ stream }) => stream.startsWith(streams.invocation(vault.principal.tenant.id, '')))
    .map(({ type }) => type);

it('the keys of arguments and callback URL are given to the append', async () => {
  expect(await react({ args: { a: 1 }, callback_url: 'https://a.example' })).toMatchObject({ status: 202 });
  expect(await typesOfRun()).toEqual(['ReactorInvoked']);
});

it('the key of the reason why it did not run is given to the append too', async () => {
  await expect(react({ args: {} })).rejects.toThrow('No runner');
  expect(await typesOfRun()).toEqual(['ReactorInvoked', 'ReactorFailed']);
});

it('a run whose keys are lost is not recorded, and leaves no keys', async () => {
  const before = await vault.keys();
  const store = { ...vault.faults.store, append: () => Promise.reject(new KeysNotStoredError()) };
  await expect(react({ args: {} }, store)).rejects.toBeInstanceOf(KeysNotStoredError);
  expect(await vault.keys()).toEqual(before);
});

it('a synchronous invocation returns its place while it waits, so that it does not delay requests of the run', async () => {
  const onWaiting = vi.fn();
  await expect(react({ args: {} }, vault.faults.store, { onWaiting })).rejects.toThrow('No runner');
  expect(onWaiting).toHaveBeenCalledOnce();
  await react({ args: {}, callback_url: 'https://a.example' }, vault.faults.store, { onWaiting });
  expect(onWaiting).toHaveBeenCalledOnce();
});

it('the arguments and the URL of a run that code asked for end with the first cvc that the code was given', async () => {
  const { clock, keyRing, principal } = vault;
  const inMs = (ms: number) => new Date(clock.now().getTime() + ms).toISOString();
  const parent: ParentRun = {
    actor: principal.actor,
    since: inMs(0),
    tokenIds: [],
    owner: { reactorId: reactor.id, revision: 0 },
    seen: [],
    isSeenComplete: true,
  };
  const parents = [parent, { ...parent, cvcEndsAt: inMs(2_000) }, { ...parent, cvcEndsAt: inMs(1_000) }];
  const { invocationId = '' } = await react(
    { args: { cvc: '123' }, callback_url: 'https://a.example/?cvc=123' },
    vault.faults.store,
    { parents },
  );
  const [data] = (await vault.events()).flatMap(({ type, data: of }) =>
    type === 'ReactorInvoked' && of.invocation_id === invocationId ? [of] : [],
  );
  const open = (field: 'args' | 'callback_url') =>
    keyRing.open(invocationPlace(principal.tenant.id, invocationId, field), data?.[field] ?? '');
  clock.advance(999);
  expect((await open('args')).expose()).toEqual({ cvc: '123' });
  await open('callback_url');
  clock.advance(1);
  await expect(open('args')).rejects.toThrow(KeyDestroyedError);
  await expect(open('callback_url')).rejects.toThrow(KeyDestroyedError);
});
