import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  invocationPlace,
  invocationStatement,
  ReactorFailed,
  ReactorStarted,
  ReactorSucceeded,
  type DataOf,
  type EventMetadata,
  type Reactor,
  type TokenIdentity,
  reactBody,
} from '@token-vault/contracts';
import { seal, secret } from '@token-vault/crypto';
import { createAuditTrail, createRequestContext, type Answer } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { z } from 'zod';
import { createInvocationOutcomes, type InvocationOutcomes } from '../../src/index.ts';
import { Invocations } from '../../src/invocations/handlers.ts';
import { anyone, noActor, openVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
let outcomes: InvocationOutcomes;
let reactor: Reactor;
let scope = 'the same request';
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
    idempotencyScope: [principal.tenant.id, scope],
  });

/** Each call has the same ids: the first attempt, whose process died, or a later one. */
function react(
  body: Partial<z.input<typeof reactBody>>,
  principal: Principal = vault.principal,
  store = vault.log,
): Promise<Answer> {
  const { keyRing, clock } = vault;
  const invocations = new Invocations({
    store,
    keyRing,
    clock,
    outcomes,
    allowsPlainHttp: false,
    audit: createAuditTrail(store),
    findActor: noActor,
  });
  return invocations.react(reactor.id, reactBody.parse(body), contextOf(principal));
}

interface Ending {
  readonly isSeenComplete?: boolean;
  readonly used?: readonly TokenIdentity[];
  readonly isFailed?: boolean;
}

/** Appends the events of a runner for the invocation that has no outcome yet. */
async function runIt({ isSeenComplete = true, used = [], isFailed = false }: Ending = {}): Promise<void> {
  const { log, keyRing, principal } = vault;
  const invoked = await waitUntil(
    async () => {
      const events = await vault.events();
      const over = new Set(
        events.flatMap(({ type, stream }) => (/^Reactor(Succeeded|Failed)$/.test(type) ? [stream] : [])),
      );
      return events.find(({ type, stream }) => type === 'ReactorInvoked' && !over.has(stream));
    },
    { what: 'the invocation' },
  );
  if (!invoked) return;
  const { invocation_id, reactor_id } = invoked.data as DataOf<'ReactorInvoked'>;
  const place = invocationPlace(principal.tenant.id, invocation_id, 'outcome_with_tokens');
  const { key, stored } = await keyRing.createDataKey({
    ...place,
    purpose: 'outcome',
    destroyAfter: new Date('2099-01-01T00:00:00Z'),
  });
  await stored;
  const content = isFailed
    ? { type: 'ReactorFailed', value: { detail: 'It failed.', errors: {} } }
    : { type: 'ReactorSucceeded', value: { raw: 'SECRET' } };
  const result = seal(key, place, secret({ ...content, seen: [], used, isSeenComplete }));
  const context = createRequestContext({ principal, traceId: 'run', now: vault.clock.now() });
  const run = { invocation_id, reactor_id };
  const deadline = context.metadata.occurred_at;
  const of = { ...run, mode: 'sync', sealed_with_tokens: true } as const;
  const failure = { ...of, status: 400, reason: 'code_error', problem: result };
  await log.append(
    invoked.stream,
    [
      context.event(ReactorStarted, { ...run, runner_id: randomUUID(), deadline }),
      isFailed ? context.event(ReactorFailed, failure) : context.event(ReactorSucceeded, { ...of, result }),
    ],
    0,
  );
}

it('the repeat of a run that was cut off before its answer is decided by the tokens that the run began with, and by its reactor', async () => {
  const { body, tokens, isRepeat } = await react({ args: {} });
  expect(body).toEqual({ raw: 'SECRET' });
  expect(isRepeat).toBe(true);
  expect(tokens).toMatchObject([
    { id: 'tok', by: 'use' },
    { id: reactor.id, by: 'ran', shown: { ran: 0 } },
  ]);
});

it('the answer to a run names the tokens of its arguments by the time of their creation', async () => {
  const used = [{ id: 'tok', createdAt: '2029-12-31T00:00:00.000Z' }];
  scope = randomUUID();
  const first = react({ args: { a: '{{ tok }}' } });
  await runIt({ used });
  expect((await first).tokens).toMatchObject([{ ...used[0], by: 'use' }, { by: 'ran' }]);
});

it('such a repeat cannot be shown when the code was shown more tokens than are named', async () => {
  expect((await react({ args: {} })).isUnrepeatable).toBe(false);
  scope = randomUUID();
  const first = react({ args: { a: '{{ tok }}' } });
  await runIt({ isSeenComplete: false });
  expect((await first).isUnrepeatable).toBe(true);
  expect((await react({ args: {} })).isUnrepeatable).toBe(true);
});

it('such a repeat is refused to a caller that may not use these tokens any more, whichever tokens the repeat names', async () => {
  const elsewhere = anyone().rules.map((rule) => ({ ...rule, container: '/elsewhere/' }));
  const narrowed = { ...vault.principal, rules: elsewhere };
  await expect(react({ args: {} }, narrowed)).rejects.toMatchObject({ code: 'forbidden' });
});

it('such a repeat is a conflict for another caller with the same ids, and for another reactor', async () => {
  const conflict = { status: 409, code: 'conflict' };
  const other = { ...vault.principal, actor: { kind: 'application', id: 'other' } } as const;
  await expect(react({ args: {} }, other)).rejects.toMatchObject(conflict);
  const session = { ...vault.principal, authorizedBy: randomUUID() };
  await expect(react({ args: {} }, session)).rejects.toMatchObject(conflict);
  const body = { name: 'other', code: 'module.exports = async () => ({});', configuration: {} };
  const manager = anyone({ tenant: vault.principal.tenant, applicationType: 'management' });
  reactor = (await vault.call('createReactor', { body }, { as: manager })).body as Reactor;
  await expect(react({ args: {} })).rejects.toMatchObject(conflict);
});

/** The log after an attacker changed the database: the data and the metadata of the invocation. */
function withInvocation(
  change: (data: DataOf<'ReactorInvoked'>) => DataOf<'ReactorInvoked'>,
  metadata: Partial<EventMetadata> = {},
) {
  return {
    ...vault.log,
    async *readStream(stream: string) {
      for await (const event of vault.log.readStream(stream))
        yield event.type === 'ReactorInvoked'
          ? { ...event, data: change(event.data), metadata: { ...event.metadata, ...metadata } }
          : event;
    },
  };
}
const altered = { code: 'record_altered' };

it('such a repeat does not accept a forged invocation, which could hide the tokens that the run was given', async () => {
  const store = withInvocation(({ signature: _signature, ...data }) => ({ ...data, token_ids: [] }));
  await expect(react({ args: {} }, vault.principal, store)).rejects.toMatchObject(altered);
});

it('such a repeat does not accept another time of the invocation, after which tokens would count that have ended', async () => {
  const store = withInvocation((data) => data, { occurred_at: '2040-01-01T00:00:00.000Z' });
  await expect(react({ args: {} }, vault.principal, store)).rejects.toMatchObject(altered);
});

it('such a repeat does not accept the genuine record of another invocation', async () => {
  const hashes = await vault.keyRing.hashes(vault.principal.tenant.id);
  const [invoked] = (await vault.events()).filter(({ type }) => type === 'ReactorInvoked');
  if (invoked?.type !== 'ReactorInvoked') throw new Error('the run was not queued');
  const other = { ...invoked.data, invocation_id: randomUUID(), token_ids: [] };
  const signature = hashes.sign(invocationStatement(other, invoked.metadata), 0);
  const store = withInvocation(() => ({ ...other, signature }));
  await expect(react({ args: {} }, vault.principal, store)).rejects.toMatchObject(altered);
});

/** The log as an attempt finds it that looks for the run of the request before that run is appended. */
function missedAtFirst(log: TestVault['log']): TestVault['log'] {
  let isMissed = false;
  return {
    ...log,
    async *readStream(stream, options) {
      const isLookedFor = !isMissed && stream.startsWith('invocation-');
      isMissed ||= isLookedFor;
      if (!isLookedFor) yield* log.readStream(stream, options);
    },
  };
}

it('an attempt that meets the run of another when it appends does not accept it when it is forged, or of another caller', async () => {
  const forged = withInvocation(({ signature: _signature, ...data }) => ({ ...data, token_ids: [] }));
  const meet = (store: TestVault['log'], principal = vault.principal) =>
    react({ args: {} }, principal, missedAtFirst(store));
  await expect(meet(vault.log)).resolves.toMatchObject({ body: { raw: 'SECRET' }, isRepeat: true });
  await expect(meet(forged)).rejects.toMatchObject(altered);
  const other = { ...vault.principal, actor: { kind: 'application', id: 'other' } } as const;
  await expect(meet(vault.log, other)).rejects.toMatchObject({ status: 409, code: 'conflict' });
});

const invokedRuns = async () => (await vault.events()).filter(({ type }) => type === 'ReactorInvoked');

it('a repeat finds the run that a repeat began after a failed one', async () => {
  scope = randomUUID();
  const before = (await invokedRuns()).length;
  const first = react({ args: {} });
  const isRefused = expect(first).rejects.toMatchObject({ message: 'It failed.' });
  await runIt({ isFailed: true });
  await isRefused;
  const second = react({ args: {} });
  await runIt();
  expect(await second).toMatchObject({ body: { raw: 'SECRET' }, isRepeat: false });
  expect(await react({ args: {} })).toMatchObject({ body: { raw: 'SECRET' }, isRepeat: true });
  expect((await invokedRuns()).length - before).toBe(2);
});
