import { randomBytes, randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { createCommandHandlers } from '@token-vault/command-service';
import { eventRegistry, operations, type OperationId, type Token } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations } from '@token-vault/crypto';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { projections, projectorMigrations, startProjectors } from '@token-vault/projectors';
import {
  createAuditTrail,
  createProjectionProgress,
  createRequestContext,
  silentLogger,
  systemClock,
  type Handler,
  type Handlers,
} from '@token-vault/service-kit';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import fc from 'fast-check';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** What a tenant should see of its tokens and log, kept by the simplest means. */
interface ModelToken {
  type: string;
  container: string;
  metadata: Record<string, string>;
}
type Model = { tokens: Map<string, ModelToken>; applications: Map<string, string>; log: string[] };

type Step =
  | {
      kind: 'create';
      slot: number;
      container: string;
      metadata: Record<string, string>;
      inTransaction: boolean;
    }
  | { kind: 'patch'; slot: number; metadata: Record<string, string> }
  | { kind: 'delete'; slot: number }
  | { kind: 'application'; slot: number; name: string }
  | { kind: 'rename'; slot: number; name: string }
  | { kind: 'end-application'; slot: number };

const slot = fc.nat(4);
const name = fc.constantFrom('a', 'b', 'c');
const metadata = fc.dictionary(fc.constantFrom('k', 'l'), fc.constantFrom('One', 'two'), { maxKeys: 2 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('create' as const),
    slot,
    container: fc.constantFrom('/general/high/', '/x/', '/x/y/'),
    metadata,
    inTransaction: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('patch' as const), slot, metadata }),
  fc.record({ kind: fc.constant('delete' as const), slot }),
  fc.record({ kind: fc.constant('application' as const), slot, name }),
  fc.record({ kind: fc.constant('rename' as const), slot, name }),
  fc.record({ kind: fc.constant('end-application' as const), slot }),
);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: Pool;
let handlers: Handlers;
const closers: (() => Promise<unknown>)[] = [];
const store = createMemoryEventStore({ registry: eventRegistry });
let progress: Awaited<ReturnType<typeof createProjectionProgress>>;
let keyRing: Awaited<ReturnType<typeof createKeyRing>>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url, { max: 4 });
  for (const { sql } of [...keyRingMigrations, ...projectorMigrations]) await pool.query(sql);
  keyRing = await createKeyRing({
    pool,
    rootKey: environmentRootKey(randomBytes(32).toString('base64')),
    clock: systemClock,
    durability: 'own',
  });
  const projectors = startProjectors({ store, connectionString: database.url });
  progress = await createProjectionProgress({ connectionString: database.url, logger: silentLogger });
  closers.push(
    () => progress.close(),
    () => projectors.close(),
    () => pool.end(),
    () => database.drop(),
  );
  const audit = createAuditTrail(store);
  handlers = createCommandHandlers({ store, keyRing, audit, clock: systemClock, logger: silentLogger });
});
afterAll(async () => {
  for (const close of closers) await close();
});

/** Calls an operation as the HTTP edge does; gives undefined when a rule of the product refuses it. */
async function call(
  id: OperationId,
  principal: Principal,
  input: object,
  transactionId?: string,
): Promise<unknown> {
  const context = createRequestContext({ principal, traceId: 'test', now: new Date(), transactionId });
  const handler = handlers[id] as Handler<OperationId>;
  const operation = operations[id] as { body?: { parse(value: unknown): unknown } };
  const body = operation.body?.parse((input as { body?: unknown }).body);
  try {
    const answer = await handler({ ...input, body } as Parameters<typeof handler>[0], context);
    return answer.body ?? true;
  } catch (error) {
    if ((error as { status?: number }).status === 404) return undefined;
    throw error;
  }
}

class Run {
  readonly model: Model = { tokens: new Map(), applications: new Map(), log: [] };
  readonly #principal: Principal;
  readonly #ids = new Map<string, string>();

  constructor(tenantId: string) {
    this.#principal = {
      tenant: { id: tenantId, plan: 'enterprise', settings: {} },
      actor: { kind: 'application', id: randomUUID() },
      applicationId: randomUUID(),
      applicationType: 'private',
      permissions: ['token:create', 'token:read', 'token:update', 'token:delete'],
      rules: [],
    };
  }

  #id(kind: string, of: number): string {
    return this.#ids.get(`${kind}${of}`) ?? randomUUID();
  }

  async #create(of: Extract<Step, { kind: 'create' }>): Promise<void> {
    const body = { type: 'token', data: randomUUID(), containers: [of.container], metadata: of.metadata };
    const transaction = of.inTransaction ? await call('createTransaction', this.#principal, {}) : undefined;
    const transactionId = (transaction as { id: string } | undefined)?.id;
    if (transactionId) this.model.log.push('transaction create');
    const token = (await call('createToken', this.#principal, { body }, transactionId)) as Token;
    if (transactionId) {
      await call('commitTransaction', this.#principal, { params: { id: transactionId } });
      this.model.log.push('transaction commit');
    }
    this.#ids.set(`token${of.slot}`, token.id);
    this.model.tokens.set(token.id, { type: 'token', container: of.container, metadata: of.metadata });
    this.model.log.push('token create');
  }

  async #patch(of: Extract<Step, { kind: 'patch' }>): Promise<void> {
    const id = this.#id('token', of.slot);
    const body = { metadata: of.metadata };
    if (!(await call('updateToken', this.#principal, { params: { id }, body }))) return;
    const token = this.model.tokens.get(id);
    if (!token) throw new Error('a token was updated that is not there');
    token.metadata = { ...token.metadata, ...of.metadata };
    this.model.log.push('token update', 'token read');
  }

  async #delete(of: Extract<Step, { kind: 'delete' }>): Promise<void> {
    const id = this.#id('token', of.slot);
    if (!(await call('deleteToken', this.#principal, { params: { id } }))) return;
    if (!this.model.tokens.delete(id)) throw new Error('a token was deleted that is not there');
    this.model.log.push('token delete');
  }

  async #createApplication(of: Extract<Step, { kind: 'application' }>): Promise<void> {
    const body = { name: of.name, type: 'private', permissions: ['token:read'] };
    const { id } = (await call('createApplication', this.#principal, { body })) as { id: string };
    this.#ids.set(`application${of.slot}`, id);
    this.model.applications.set(id, of.name);
    this.model.log.push('application create');
  }

  async #renameApplication(of: Extract<Step, { kind: 'rename' }>): Promise<void> {
    const id = this.#id('application', of.slot);
    const body = { name: of.name, permissions: ['token:read'] };
    if (!(await call('updateApplication', this.#principal, { params: { id }, body }))) return;
    this.model.applications.set(id, of.name);
    this.model.log.push('application update');
  }

  async #endApplication(of: Extract<Step, { kind: 'end-application' }>): Promise<void> {
    const id = this.#id('application', of.slot);
    if (!(await call('deleteApplication', this.#principal, { params: { id } }))) return;
    this.model.applications.delete(id);
    this.model.log.push('application delete');
  }

  take(next: Step): Promise<void> {
    switch (next.kind) {
      case 'create':
        return this.#create(next);
      case 'patch':
        return this.#patch(next);
      case 'delete':
        return this.#delete(next);
      case 'application':
        return this.#createApplication(next);
      case 'rename':
        return this.#renameApplication(next);
      case 'end-application':
        return this.#endApplication(next);
    }
  }
}

const names = projections.map(({ name: of }) => of);
const entries = (map: ReadonlyMap<string, unknown>): unknown[] =>
  [...map].sort(([left], [right]) => (left < right ? -1 : 1));

async function readModels(
  tenantId: string,
): Promise<{ tokens: unknown; applications: unknown; log: string[] }> {
  const tokens = await pool.query<{ id: string; type: string; container: string; metadata: string }>(
    'select id, type, container, metadata from rm_tokens.token where tenant_id = $1',
    [tenantId],
  );
  const applications = await pool.query<{ id: string; name: string }>(
    'select id, name from rm_applications.application where tenant_id = $1',
    [tenantId],
  );
  const log = await pool.query<{ line: string }>(
    `select entity_type || ' ' || operation as line from rm_log.entry where tenant_id = $1`,
    [tenantId],
  );
  const byId = tokens.rows.map(({ id, type, container, metadata: json }) => {
    const stored = { type, container, metadata: JSON.parse(json) as Record<string, string> };
    return [id, stored] as const;
  });
  return {
    tokens: entries(new Map(byId)),
    applications: entries(new Map(applications.rows.map((row) => [row.id, row.name]))),
    log: log.rows.map((row) => row.line).sort(),
  };
}

describe('the read models', () => {
  it('equal a plain model after any sequence of commands', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const tenantId = randomUUID();
        await keyRing.createTenantKeys(tenantId);
        const run = new Run(tenantId);
        for (const next of steps) await run.take(next);
        expect(await progress.waitFor(await store.head(), 10_000, names)).toBe(true);
        expect(await readModels(tenantId)).toEqual({
          tokens: entries(run.model.tokens),
          applications: entries(run.model.applications),
          log: run.model.log.sort(),
        });
      }),
      { numRuns: 60 },
    );
  }, 120_000);
});
