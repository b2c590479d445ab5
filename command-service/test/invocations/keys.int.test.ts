import { randomUUID } from 'node:crypto';
import { streams, type Reactor } from '@token-vault/contracts';
import { KeysNotStoredError } from '@token-vault/event-store';
import { createAuditTrail, createRequestContext, silentLogger } from '@token-vault/service-kit';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createInvocationOutcomes, type InvocationOutcomes } from '../../src/index.ts';
import { Invocations } from '../../src/invocations/react.ts';
import { anyone, openVault, type TestVault } from '../tokens/vault.ts';

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

function react(body: object, store = vault.faults.store) {
  const { keyRing, clock, principal } = vault;
  const audit = createAuditTrail(store);
  const dependencies = { store, keyRing, clock, audit, outcomes, allowsPlainHttp: false, startWithinMs: 1 };
  const context = createRequestContext({ principal, traceId: randomUUID(), now: clock.now() });
  return new Invocations(dependencies).react(reactor.id, body as never, context);
}
const typesOfRun = async () =>
  (await vault.events())
    .filter(({ stream }) => stream.startsWith(streams.invocation(vault.principal.tenant.id, '')))
    .map(({ type }) => type);

it('the keys of arguments and callback URL are given to the append', async () => {
  expect(await react({ args: { a: 1 }, callback_url: 'https://a.example' })).toMatchObject({ status: 202 });
  expect(await typesOfRun()).toEqual(['ReactorInvoked']);
});

it('so is that of why it was not run', async () => {
  await expect(react({ args: {} })).rejects.toThrow('No runner');
  expect(await typesOfRun()).toEqual(['ReactorInvoked', 'ReactorFailed']);
});

it('a run whose keys are lost is not recorded, and leaves no keys', async () => {
  const before = await vault.keys();
  const store = { ...vault.faults.store, append: () => Promise.reject(new KeysNotStoredError()) };
  await expect(react({ args: {} }, store)).rejects.toBeInstanceOf(KeysNotStoredError);
  expect(await vault.keys()).toEqual(before);
});
