import { randomBytes, randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import {
  eventRegistry,
  operations,
  streams,
  ValidationError,
  type Json,
  type Operation,
  type OperationId,
  type Token,
} from '@token-vault/contracts';
import {
  createKeyRing,
  environmentRootKey,
  keyRingMigrations,
  type KeyDurability,
  type KeyRing,
  type RootKeyProvider,
} from '@token-vault/crypto';
import { startPosition, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { projectorMigrations } from '@token-vault/projectors';
import {
  createAuditTrail,
  createRequestContext,
  type Answer,
  type Handler,
  type Handlers,
  type RequestContext,
} from '@token-vault/operations';
import { createMissLimit } from '@token-vault/http';
import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool, manualClock, type ManualClock } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { asOlderRelease } from '@token-vault/crypto/older-release';
import { createCommandHandlers, createTokenReplay } from '../../src/index.ts';
import { TokenErasure } from '../../src/tokens/erasure.ts';
import { readTokenHistory } from '../../src/tokens/history.ts';
import { openToken } from '@token-vault/tokens';
import { Transactions } from '../../src/transactions/handlers.ts';
import { createTransactionOutcomes } from '../../src/transactions/outcomes.ts';
import { createFaultyStore, watchKeys, type FaultyStore } from './faults.ts';

const template = {
  name: `command-service-${[...keyRingMigrations, ...projectorMigrations].map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string): Promise<void> => {
    const pool = createTestPool(url);
    for (const { sql } of [...keyRingMigrations, ...projectorMigrations]) await pool.query(sql);
    await pool.end();
  },
};

export interface CallOptions {
  readonly as?: Principal;
  readonly transaction?: string | undefined;
  readonly idempotencyKey?: string;
  /** The handlers of another process. */
  readonly on?: Handlers | undefined;
  /** Authenticates the caller again while the request is under way. */
  readonly principalNow?: () => Promise<Principal | undefined>;
  /** Aborts when the client has gone. */
  readonly signal?: AbortSignal;
  /** The run whose code sends the request. */
  readonly run?: string;
}
type Input = { params?: unknown; query?: unknown; body?: unknown };

/** For tests without code of reactors. */
export const noActor = (): Promise<undefined> => Promise.resolve(undefined);

/** A caller with all token permissions on all containers, in plaintext. */
export const anyone = (changes: Partial<Principal> = {}): Principal => ({
  tenant: { id: randomUUID(), plan: 'enterprise', settings: {} },
  actor: { kind: 'application', id: 'app' },
  applicationId: 'app',
  applicationType: 'private',
  permissions: [],
  rules: [
    {
      description: undefined,
      priority: 1,
      container: '/',
      conditions: undefined,
      transform: 'reveal',
      permissions: [
        'token:create',
        'token:read',
        'token:update',
        'token:delete',
        'token:search',
        'token:use',
      ],
    },
  ],
  ...changes,
});

/** The command side on a log, by default in memory, and a real key ring, called as the HTTP edge calls it. */
export class TestVault {
  readonly url: string;
  readonly pool: Pool;
  readonly clock: ManualClock;
  readonly keyRing: KeyRing;
  readonly faults: FaultyStore;
  /** The log without injected faults. */
  readonly log: EventStore;
  readonly #drop: () => Promise<void>;
  readonly #rootKey: RootKeyProvider;
  #handlers: Handlers;
  /** The default caller. Its tenant has keys. */
  principal = anyone();

  constructor(parts: {
    url: string;
    pool: Pool;
    clock: ManualClock;
    keyRing: KeyRing;
    rootKey: RootKeyProvider;
    drop: () => Promise<void>;
    log: EventStore;
  }) {
    this.url = parts.url;
    this.pool = parts.pool;
    this.clock = parts.clock;
    this.#drop = parts.drop;
    this.#rootKey = parts.rootKey;
    this.log = parts.log;
    const { store, keyRing } = watchKeys(this.log, parts.keyRing);
    this.keyRing = keyRing;
    this.faults = createFaultyStore(store);
    this.#handlers = this.replica();
  }

  /** Another process on the same log and keys. */
  replica(workers = createInlineWorkers()): Handlers {
    const { clock, keyRing } = this;
    const { store } = this.faults;
    return createCommandHandlers({
      store,
      keyRing,
      expressions: createExpressions(workers),
      clock,
      missLimit: createMissLimit({ nowMs: () => clock.now().getTime() }),
      audit: createAuditTrail(store),
      logger: silentLogger,
    });
  }

  restart(): void {
    this.#handlers = this.replica();
  }

  /** Makes a new tenant for a test, so that tests cannot influence each other. */
  async newTenant(settings: Record<string, string> = {}): Promise<Principal> {
    this.principal = anyone({ tenant: { id: randomUUID(), plan: 'enterprise', settings } });
    await this.keyRing.createTenantKeys(this.principal.tenant.id);
    return this.principal;
  }

  /** A tenant of a release before signatures. */
  async oldTenant(): Promise<Principal> {
    await this.newTenant();
    await this.age();
    return this.principal;
  }

  /** Sets the keys of the tenant to the state that a release before signatures left. */
  age(): Promise<void> {
    const { pool, keyRing } = this;
    return asOlderRelease({ pool, keyRing, rootKey: this.#rootKey }, this.principal.tenant.id);
  }

  async call(id: OperationId, input: Input, options: CallOptions = {}): Promise<Answer> {
    const { as: principal = this.principal, transaction, idempotencyKey } = options;
    const operation: Operation = operations[id];
    const parsed = operation.body?.safeParse(input.body);
    if (parsed && !parsed.success) throw new ValidationError({ body: ['is refused at the edge'] });
    const context = createRequestContext({
      principal,
      traceId: randomUUID(),
      now: this.clock.now(),
      transactionId: transaction,
      idempotencyScope: idempotencyKey === undefined ? undefined : [principal.tenant.id, idempotencyKey],
      principalNow: options.principalNow,
      signal: options.signal,
      causationId: options.run,
    });
    const handler = (options.on ?? this.#handlers)[id] as Handler<OperationId> | undefined;
    if (!handler) throw new Error(`no handler for ${id}`);
    const query = operation.query?.parse(input.query ?? {});
    const request = { params: input.params, query, body: parsed?.data };
    const answer = await handler(request as unknown as Parameters<typeof handler>[0], context);
    return answer.isRepeat === true ? this.#asRepeat(answer, context) : answer;
  }

  /** Handles a stored answer as the executor does. */
  async #asRepeat(answer: Answer, context: RequestContext): Promise<Answer> {
    const { clock, keyRing, log: store } = this;
    const expressions = createExpressions(createInlineWorkers());
    const replay = createTokenReplay({
      store,
      keyRing,
      clock,
      expressions,
      audit: createAuditTrail(store),
      findActor: noActor,
    });
    const tokens = (answer.tokens ?? []).flatMap((token) =>
      token.createdAt === undefined ? [] : [{ ...token, createdAt: token.createdAt }],
    );
    const [shown] = await replay.show(tokens, context, { present: async () => context, isOnRecord: false });
    return tokens[0]?.at?.length === 0 ? { ...answer, body: shown?.token } : answer;
  }

  async create(body: object, options?: CallOptions): Promise<Token> {
    return (await this.call('createToken', { body }, options)).body as Token;
  }
  async update(id: string, body: object, options?: CallOptions): Promise<Token> {
    return (await this.call('updateToken', { params: { id }, body }, options)).body as Token;
  }
  async remove(id: string, options?: CallOptions): Promise<void> {
    await this.call('deleteToken', { params: { id } }, options);
  }
  async tokenize(body: unknown, options?: CallOptions): Promise<Json> {
    return (await this.call('tokenize', { body }, options)).body as Json;
  }
  async begin(options?: CallOptions): Promise<string> {
    return ((await this.call('createTransaction', {}, options)).body as { id: string }).id;
  }
  async end(how: 'commit' | 'rollback', id: string, options?: CallOptions): Promise<void> {
    await this.call(
      how === 'commit' ? 'commitTransaction' : 'rollbackTransaction',
      { params: { id } },
      options,
    );
  }

  history(tokenId: string, transactionId?: string) {
    const outcomes = createTransactionOutcomes(this.log, this.clock);
    return readTokenHistory({ store: this.log, outcomes }, this.principal.tenant.id, tokenId, {
      principal: this.principal,
      transactionId,
    });
  }

  /** Settles an ended transaction as housekeeping does. */
  async settle(transactionId: string): Promise<void> {
    const { log, keyRing, clock } = this;
    const outcomes = createTransactionOutcomes(log, clock);
    await outcomes.endIfOver(this.principal.tenant.id, transactionId);
    const erasure = new TokenErasure({ store: log, keyRing, outcomes });
    await new Transactions(log, outcomes, erasure).settle(this.principal.tenant.id, transactionId);
  }

  /** The live token with its data in plaintext, in its committed state or as the transaction sees it. */
  async stored(tokenId: string, transactionId?: string) {
    const { state } = await this.history(tokenId, transactionId);
    const expiresAt = state.kind === 'present' ? state.details.content.expires_at : undefined;
    const isOver = expiresAt !== undefined && Date.parse(expiresAt) <= this.clock.now().getTime();
    if (state.kind !== 'present' || isOver) return undefined;
    const place = { tenantId: this.principal.tenant.id, tokenId };
    const data = await openToken(this.keyRing, place, state.details.content, this.clock.now());
    return { ...state.details, data: data.expose() };
  }

  async events(stream?: string): Promise<RecordedEvent[]> {
    const { id } = this.principal.tenant;
    const all: RecordedEvent[] = [];
    for await (const event of this.log.readAll(startPosition)) all.push(event);
    return all.filter(
      (event) => event.metadata.tenant_id === id && (stream === undefined || event.stream === stream),
    );
  }

  /** The ids of all tokens that an event names. */
  async tokenIds(): Promise<Set<string>> {
    const prefix = streams.token(this.principal.tenant.id, '');
    const named = (await this.events()).filter((event) => event.stream.startsWith(prefix));
    return new Set(named.map((event) => decodeURIComponent(event.stream.slice(prefix.length))));
  }

  /** The ids of live tokens in their committed state. */
  async live(): Promise<string[]> {
    const ids = [...(await this.tokenIds())];
    const stored = await Promise.all(ids.map((id) => this.stored(id)));
    return ids.filter((_id, index) => stored[index] !== undefined).sort();
  }

  /** Data keys of the tenant: `<entity> <purpose>`, sorted. */
  async keys(): Promise<string[]> {
    const { rows } = await this.pool.query<{ entity: string; purpose: string }>(
      'select entity, purpose from key_ring.data_key where tenant_id = $1 order by entity, purpose',
      [this.principal.tenant.id],
    );
    return rows.map(({ entity, purpose }) => `${entity.replace('token:', '')} ${purpose}`);
  }

  async close(): Promise<void> {
    await this.log.close();
    await this.pool.end();
    await this.#drop();
  }
}

export interface VaultOptions {
  /** Opens the log. By default it is in memory. */
  readonly openLog?: ((databaseUrl: string) => Promise<EventStore>) | undefined;
  readonly durability?: KeyDurability;
}

export async function openVault({ openLog, durability = 'own' }: VaultOptions = {}): Promise<TestVault> {
  const database = await createTestDatabase({ template });
  const log = openLog ? await openLog(database.url) : createMemoryEventStore({ registry: eventRegistry });
  const pool = createTestPool(database.url);
  const clock = manualClock();
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  const keyRing = await createKeyRing({ pool, rootKey, clock, durability });
  return new TestVault({ url: database.url, pool, clock, keyRing, rootKey, drop: database.drop, log });
}

/**
 * Opens a vault before the tests of the file, and closes it after them. `keep` gets it before the file's own hooks. Each
 * test has a tenant of its own, begins at the same time, and without faults.
 */
export function useVault(keep: (vault: TestVault) => void): void {
  let vault: TestVault;
  beforeAll(async () => {
    vault = await openVault();
    keep(vault);
  });
  beforeEach(async () => {
    vault.clock.set('2030-01-01T00:00:00Z');
    vault.faults.decide = () => undefined;
    vault.faults.interpose = async () => undefined;
    await vault.newTenant();
  });
  afterAll(() => vault.close());
}

/** The shape of a refusal. */
export const refusal = (code: string, ...fields: string[]): object => ({
  code,
  ...(fields.length === 0 ? {} : { errors: Object.fromEntries(fields.map((field) => [field, anyMessages])) }),
});
const anyMessages = { asymmetricMatch: (value: unknown) => Array.isArray(value) && value.length > 0 };

export const card = '4242424242424242';
