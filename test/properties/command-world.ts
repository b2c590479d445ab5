import { randomBytes, randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { createCommandHandlers, housekeepingMigrations } from '@token-vault/command-service';
import { operations, type Operation, type OperationId } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { projectorMigrations } from '@token-vault/projectors';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import {
  createAuditTrail,
  createRequestContext,
  type Answer,
  type Clock,
  type Handlers,
  type RequestContext,
} from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import type { Pool } from 'pg';

interface Request {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
}

/** Calls an operation as the HTTP edge does. Gives undefined for 404 and throws any other refusal. */
export type Call = (
  id: OperationId,
  principal: Principal,
  input: Request,
  transactionId?: string,
) => Promise<unknown>;

export interface CommandWorld {
  readonly keyRing: KeyRing;
  readonly call: Call;
}

/** All command handlers, over a database that is empty or has only the event store. */
export async function openCommands(pool: Pool, store: EventStore, clock: Clock): Promise<CommandWorld> {
  for (const { sql } of [...keyRingMigrations, ...projectorMigrations, ...housekeepingMigrations])
    await pool.query(sql);
  const rootKey = environmentRootKey(randomBytes(32).toString('base64'));
  const keyRing = await createKeyRing({ pool, rootKey, clock, durability: 'own' });
  const audit = createAuditTrail(store);
  const expressions = createExpressions(createInlineWorkers());
  const handlers: Handlers = createCommandHandlers({
    store,
    keyRing,
    audit,
    expressions,
    clock,
    logger: silentLogger,
  });
  return {
    keyRing,
    async call(id, principal, input, transactionId) {
      const context = createRequestContext({ principal, traceId: 'test', now: clock.now(), transactionId });
      const handler = handlers[id] as (input: unknown, of: RequestContext) => Promise<Answer>;
      try {
        const answer = await handler(inputOf(operations[id], input), context);
        // As the executor answers the repeat of a revocation that was confirmed.
        if (answer.ifConfirmedBefore) throw answer.ifConfirmedBefore;
        return answer.body ?? true;
      } catch (error) {
        if ((error as { status?: number }).status === 404) return undefined;
        throw error;
      }
    },
  };
}

/** The parts of a request as the executor hands them on: handlers rely on the defaults of the schemas. */
function inputOf(operation: Operation, { params, query, body }: Request) {
  return {
    params: operation.params?.parse(params),
    query: operation.query?.parse(query ?? {}),
    body: operation.body?.parse(body),
  };
}

/** An application with all token permissions. Below the HTTP edge most other permissions are not checked. */
export const principalOf = (tenantId: string): Principal => ({
  tenant: { id: tenantId, plan: 'enterprise', settings: {} },
  actor: { kind: 'application', id: randomUUID() },
  applicationId: randomUUID(),
  applicationType: 'private',
  permissions: ['token:create', 'token:read', 'token:update', 'token:delete'],
  rules: [],
});
