import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  invocationPlace,
  invocationStatement,
  ReactorStarted,
  ReactorSucceeded,
  type DataOf,
  type Reactor,
} from '@token-vault/contracts';
import { seal, secret } from '@token-vault/crypto';
import { createRequestContext, silentLogger, type Answer } from '@token-vault/service-kit';
import { waitUntil } from '@token-vault/test-support';
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
  await vault.create({ id: 'tok', type: 'token', data: 'SECRET' });
  const first = react({ args: { a: '{{ tok }}' } });
  await runIt();
  expect((await first).body).toEqual({ raw: 'SECRET' });
});
afterAll(async () => {
  await outcomes.close();
  await vault.close();
});

const contextOf = (principal: Principal) =>
  createRequestContext({
    principal,
    traceId: randomUUID(),
    now: vault.clock.now(),
    idempotencyScope: [principal.tenant.id, 'the same request'],
  });

/** Each time as the first attempt, whose process died, or a later one: under the same ids. */
function react(body: object, principal: Principal = vault.principal, store = vault.log): Promise<Answer> {
  const { keyRing, clock } = vault;
  const invocations = new Invocations({ store, keyRing, clock, outcomes, allowsPlainHttp: false });
  return invocations.react(reactor.id, body as never, contextOf(principal));
}

/** What a runner does. */
async function runIt(): Promise<void> {
  const { log, keyRing, principal } = vault;
  const invoked = await waitUntil(
    async () => (await vault.events()).find(({ type }) => type === 'ReactorInvoked'),
    { what: 'the invocation' },
  );
  if (!invoked) return;
  const { invocation_id, reactor_id } = invoked.data as DataOf<'ReactorInvoked'>;
  const place = invocationPlace(principal.tenant.id, invocation_id, 'outcome');
  const { key, stored } = await keyRing.createDataKey({ ...place, purpose: 'outcome' });
  await stored;
  const result = seal(key, place, secret({ raw: 'SECRET' }));
  const context = createRequestContext({ principal, traceId: 'run', now: vault.clock.now() });
  const run = { invocation_id, reactor_id };
  const deadline = context.metadata.occurred_at;
  await log.append(
    invoked.stream,
    [
      context.event(ReactorStarted, { ...run, runner_id: randomUUID(), deadline }),
      context.event(ReactorSucceeded, { ...run, mode: 'sync', result, seen_token_ids: [] }),
    ],
    0,
  );
}

it('the repeat of a run that was cut off before its answer rests on the tokens that the run began with', async () => {
  const { body, tokens } = await react({ args: {} });
  expect(body).toEqual({ raw: 'SECRET' });
  expect(tokens).toMatchObject([{ id: 'tok', by: 'use' }]);
});

it('such a repeat is refused to who may not use them any more, whatever it names itself', async () => {
  const elsewhere = anyone().rules.map((rule) => ({ ...rule, container: '/elsewhere/' }));
  const narrowed = { ...vault.principal, rules: elsewhere };
  await expect(react({ args: {} }, narrowed)).rejects.toMatchObject({ code: 'forbidden' });
});

it('such a repeat shows nothing once one of them is deleted', async () => {
  await vault.remove('tok');
  await expect(react({ args: {} })).rejects.toMatchObject({ status: 400 });
});

/** The log as somebody who writes the database leaves it: the invocation says `data`. */
function withInvocation(change: (data: DataOf<'ReactorInvoked'>) => DataOf<'ReactorInvoked'>) {
  return {
    ...vault.log,
    async *readStream(stream: string) {
      for await (const event of vault.log.readStream(stream))
        yield event.type === 'ReactorInvoked' ? { ...event, data: change(event.data) } : event;
    },
  };
}
const altered = { code: 'record_altered' };

it('such a repeat believes no invocation that was planted: it may hide which tokens the run was given', async () => {
  const store = withInvocation(({ signature: _signature, ...data }) => ({ ...data, token_ids: [] }));
  await expect(react({ args: {} }, vault.principal, store)).rejects.toMatchObject(altered);
});

it('such a repeat does not believe the genuine record of another invocation in its place', async () => {
  const hashes = await vault.keyRing.hashes(vault.principal.tenant.id);
  const [invoked] = (await vault.events()).filter(({ type }) => type === 'ReactorInvoked');
  if (invoked?.type !== 'ReactorInvoked') throw new Error('the run was not queued');
  const other = { ...invoked.data, invocation_id: randomUUID(), token_ids: [] };
  const signature = hashes.sign(invocationStatement(other, invoked.metadata), 0);
  const store = withInvocation(() => ({ ...other, signature }));
  await expect(react({ args: {} }, vault.principal, store)).rejects.toMatchObject(altered);
});
