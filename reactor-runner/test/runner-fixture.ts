import { randomBytes } from 'node:crypto';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import {
  eventRegistry,
  invocationPlace,
  invocationStatement,
  newId,
  ReactorCreated,
  ReactorInvoked,
  reactorStatement,
  streams,
  TenantCreated,
  tenantStatement,
  TenantWebhookSecretRotated,
  newEvent,
  type Actor,
  type DataOf,
  type Json,
  type JsonInput,
  type JsonObject,
  type EventName,
  type NewDataOf,
  type ParentRun,
  type VaultEventType,
} from '@token-vault/contracts';
import type { Principal } from '@token-vault/access';
import {
  createKeyRing,
  environmentRootKey,
  keyRingMigrations,
  secret,
  type KeyRing,
  type SealContext,
  type SealedValue,
} from '@token-vault/crypto';
import type { EventStore, RecordedEvent } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool, manualClock, type ManualClock } from '@token-vault/test-support';
import { beforeEach } from 'vitest';
import type { DecisionOnOutputs, DecisionOnSeen } from '../src/runs/ports.ts';
import { readHistory, type Invocation, type InvocationHistory } from '../src/runs/invocation.ts';
import { Runs, type RunDependencies } from '../src/runs/run.ts';
import type { RunRequest, RunOutcome } from '../src/sandbox/index.ts';

export const tenantId = newId();

/** `parents`: the runs that the invocation is nested in. */
type Changes = Partial<Omit<DataOf<'ReactorInvoked'>, 'parents'>> & {
  readonly parents?: readonly ParentRun[];
};

export interface RunnerFixture {
  /** Shows results as they were stored. */
  readonly decisionOnOutputs: DecisionOnOutputs;
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: ManualClock;
  readonly runs: RunRequest[];
  readonly tokenized: Json[];
  /** The outcome of the sandbox. An empty success by default. */
  sandbox: (request: RunRequest) => Promise<RunOutcome>;
  /** Another runner on the same log. */
  /** The kinds of the records that were found altered. */
  readonly altered: readonly string[];
  runner(changes?: Partial<RunDependencies>): Runs;
  invoke(args: Json, callbackUrl?: string, changes?: Changes): Promise<Invocation>;
  historyOf(invocation: Invocation): Promise<InvocationHistory>;
  eventsOf(invocation: Invocation): Promise<RecordedEvent[]>;
  typesOf(invocation: Invocation): Promise<string[]>;
  /** The arguments; or of an outcome the body or the problem, without the tokens. */
  open(invocation: Invocation, field: 'args' | 'outcome', sealed: unknown): Promise<unknown>;
  close(): Promise<void>;
}

const template = {
  name: `runner-${keyRingMigrations.map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string): Promise<void> => {
    const pool = createTestPool(url);
    for (const { sql } of keyRingMigrations) await pool.query(sql);
    await pool.end();
  },
};

const succeeded: RunOutcome = { kind: 'succeeded', result: {}, console: { lines: [], truncated: false } };

/** A receiver, and its answer. */
/** The signal of a delivery that has all the time it needs. */
export const noLimit = new AbortController().signal;
export const url = 'https://receiver.example/hook';
export const answered = {
  status: 200,
  statusText: '',
  headers: [],
  body: new Uint8Array(),
  url,
  redirected: false,
};

/** For runs whose code was shown no token. */
export const nothingSeen: DecisionOnSeen = async () => async () => ({
  refusal: undefined,
  record: async () => undefined,
});

/** No run has made tokens. */
const nothingMade: DecisionOnOutputs =
  async ({ value }) =>
  () => ({
    shown: [],
    value: async () => value,
    record: async () => undefined,
  });

/** Every invoker may still use all tokens. */
export const invoker = (ofTenant: string, actor: Actor): Principal => ({
  tenant: { id: ofTenant, plan: 'enterprise', settings: {} },
  actor,
  applicationId: actor.id,
  applicationType: 'private',
  permissions: ['token:use'],
  rules: [],
});

export function event<Type extends VaultEventType>(name: EventName<Type>, data: NewDataOf<Type>, now: Date) {
  return newEvent(name, data, {
    id: newId(),
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'application' as const, id: 'app' },
      trace_id: 'trace',
      correlation_id: 'trace',
      occurred_at: now.toISOString(),
    },
  });
}

const sealed = (keyRing: KeyRing, place: SealContext, value: JsonInput): Promise<SealedValue> =>
  keyRing.sealNew(place, secret(value));

/** Makes a reactor and the secret of its tenant. Gives the reactor's id. */
async function writeReactor(store: EventStore, keyRing: KeyRing, now: Date): Promise<string> {
  const reactorId = newId();
  const place = { tenantId, entity: `reactor:${reactorId}`, field: 'configuration' };
  const configuration = await sealed(keyRing, place, { KEY: 'value' });
  const content = { name: 'r', code: 'code', configuration };
  const statement = reactorStatement({ id: reactorId, ...content, applicationId: undefined });
  const signature = (await keyRing.hashes(tenantId)).sign(statement, 0);
  const reactor = { reactor_id: reactorId, ...content, signature };
  await store.append(
    streams.reactor(tenantId, reactorId),
    [event(ReactorCreated, reactor, now)],
    'no-stream',
  );
  const webhookSecret = await sealed(
    keyRing,
    { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' },
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  );
  const tenant = { plan: 'enterprise', settings: {} } as const;
  const tenantSignature = (await keyRing.hashes(tenantId)).sign(
    tenantStatement({ ...tenant, acceptsUnsigned: false }),
    0,
  );
  const created = { tenant_id: tenantId, name: 'tenant', ...tenant, signature: tenantSignature };
  const rotated = { tenant_id: tenantId, secret: webhookSecret };
  const ofTenant = [event(TenantCreated, created, now), event(TenantWebhookSecretRotated, rotated, now)];
  await store.append(streams.tenant(tenantId), ofTenant, 'no-stream');
  return reactorId;
}

interface Invoked {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly reactorId: string;
  readonly now: Date;
}

async function writeInvocation(
  { store, keyRing, reactorId, now }: Invoked,
  args: Json,
  callbackUrl: string | undefined,
  { parents, ...changes }: Changes = {},
): Promise<Invocation> {
  const id = newId();
  const stream = streams.invocation(tenantId, id);
  const place = (field: 'args' | 'callback_url' | 'parents') => invocationPlace(tenantId, id, field);
  const callback =
    callbackUrl === undefined
      ? {}
      : { callback_url: await sealed(keyRing, place('callback_url'), callbackUrl) };
  const data = {
    invocation_id: id,
    reactor_id: reactorId,
    reactor_revision: 0,
    mode: callbackUrl === undefined ? ('sync' as const) : ('async' as const),
    args: await sealed(keyRing, place('args'), args),
    token_ids: [],
    timeout_ms: 10_000,
    ...callback,
    depth: parents?.length ?? 0,
    ...(parents && { parents: await sealed(keyRing, place('parents'), parents) }),
    ...changes,
  };
  const { metadata } = event(ReactorInvoked, data, now);
  const signature = (await keyRing.hashes(tenantId)).sign(invocationStatement(data, metadata), 0);
  await store.append(stream, [event(ReactorInvoked, { ...data, signature }, now)], 'no-stream');
  const { invocation } = await readHistory(store, stream);
  if (!invocation) throw new Error('nothing was stored');
  return invocation;
}

async function openKeyRing(clock: ManualClock) {
  const database = await createTestDatabase({ template });
  const pool = createTestPool(database.url);
  const rootKey = environmentRootKey(randomBytes(32).toString('base64'), 'TEST');
  const altered: string[] = [];
  const onAltered = (kind: string) => altered.push(kind);
  const keyRing = await createKeyRing({ pool, rootKey, clock, durability: 'own', onAltered });
  await keyRing.createTenantKeys(tenantId);
  const close = async (): Promise<void> => {
    await pool.end();
    await database.drop();
  };
  return { keyRing, altered, close };
}

export async function createRunnerFixture(): Promise<RunnerFixture> {
  const clock = manualClock();
  const { keyRing, altered, close } = await openKeyRing(clock);
  const store = createMemoryEventStore({ registry: eventRegistry });
  const reactorId = await writeReactor(store, keyRing, clock.now());
  const fixture: RunnerFixture = {
    decisionOnOutputs: nothingMade,
    store,
    keyRing,
    altered,
    clock,
    runs: [],
    tokenized: [],
    sandbox: () => Promise.resolve(succeeded),
    runner: (changes = {}) =>
      new Runs({
        store,
        keyRing,
        expressions: createExpressions(createInlineWorkers()),
        guess: (_context, _isMiss, work) => work(),
        clock,
        logger: silentLogger,
        findInvoker: (ofTenant, actor) => Promise.resolve(invoker(ofTenant, actor)),
        decisionOnUse: () => Promise.resolve(() => undefined),
        useNamed: () => Promise.resolve(),
        refuseOwner: () => Promise.resolve(undefined),
        decisionOnSeen: nothingSeen,
        openTokens: async (_ids, _context, make) => ({ made: make(new Map()), use: [], madeAt: new Map() }),
        operations: {
          asApplication: () => Promise.reject(new Error('not in this test')),
          tokenize({ payload }) {
            fixture.tokenized.push(payload);
            return Promise.resolve('token');
          },
        },
        sandbox: {
          run(request) {
            fixture.runs.push(request);
            return fixture.sandbox(request);
          },
        },
        fetch: () => Promise.reject(new Error('not in this test')),
        ...changes,
      }),
    invoke: (args, callbackUrl, changes) =>
      writeInvocation({ store, keyRing, reactorId, now: clock.now() }, args, callbackUrl, changes),
    historyOf: ({ stream }) => readHistory(store, stream),
    async eventsOf({ stream }) {
      const events: RecordedEvent[] = [];
      for await (const each of store.readStream(stream)) events.push(each);
      return events;
    },
    typesOf: async (invocation) => (await fixture.eventsOf(invocation)).map(({ type }) => type),
    async open({ id }, field, value) {
      const place = invocationPlace(tenantId, id, field === 'args' ? field : 'outcome_with_tokens');
      const opened = (await keyRing.open<JsonObject>(place, value as never)).expose();
      return field === 'args' ? opened : opened['value'];
    },
    async close() {
      await store.close();
      await close();
    },
  };
  return fixture;
}

/** Makes a fixture for each test, and closes it after the test. `keep` gets it before the test's own hooks. */
export function useRunnerFixture(keep: (fixture: RunnerFixture) => void): void {
  beforeEach(async () => {
    const fixture = await createRunnerFixture();
    keep(fixture);
    return () => fixture.close();
  });
}
