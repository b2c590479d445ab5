import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { afterEach, beforeEach } from 'vitest';
import { NotFoundError } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import { createTestDatabase, createTestPool, manualClock } from '@token-vault/test-support';
import {
  createIdempotentAnswers,
  idempotencyMigrations,
  type IdempotentAnswersOptions,
} from '../src/index.ts';
import type { Answer, IdempotentRequest, Repeating, TokenFacts } from '@token-vault/operations';
import { principalWith, tenantId } from './principal.ts';

export const canary = '4111111111111111';
export const hourMs = 3_600_000;
const migrations = [...keyRingMigrations, ...idempotencyMigrations];
const template = {
  name: `idempotency-${migrations.map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string) => {
    const own = createTestPool(url);
    for (const { sql } of migrations) await own.query(sql);
    await own.end();
  },
};
const rootKey = environmentRootKey(randomBytes(32).toString('hex'));

/** Fresh answers of a fresh database for each test. */
export function useAnswers() {
  const clock = manualClock();
  const pools: pg.Pool[] = [];
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let pool: pg.Pool;
  let keyRing: KeyRing;
  let answers: ReturnType<typeof openAnswers>;
  const existing = existingTokens();

  function openAnswers(options: IdempotentAnswersOptions) {
    const opened = createIdempotentAnswers(options);
    return {
      run: (request: IdempotentRequest, handle: (scope: readonly string[]) => Promise<Answer>) =>
        opened.run(request, handle, existing.repeating),
      sweep: (now: Date) => opened.sweep(now),
      abandonAll: () => opened.abandonAll(),
    };
  }

  async function restart(leaseMs = 60_000): Promise<void> {
    pool = createTestPool(database.url, { max: 10 });
    pools.push(pool);
    keyRing = await createKeyRing({ pool, clock, rootKey, durability: 'own' });
    answers = openAnswers({ pool, keyRing, clock, leaseMs });
  }

  beforeEach(async () => {
    existing.living.clear();
    existing.live();
    database = await createTestDatabase({ template });
    clock.set('2030-01-01T00:00:00Z');
    await restart();
    await keyRing.createTenantKeys(tenantId);
  });
  afterEach(async () => {
    await Promise.all(pools.splice(0).map((each) => each.end()));
    await database.drop();
  });

  return {
    clock,
    ...existing,
    openAnswers,
    restart,
    get pool() {
      return pool;
    },
    get keyRing() {
      return keyRing;
    },
    get answers() {
      return answers;
    },
  };
}

function existingTokens() {
  /** By id. */
  const living = new Map<string, TokenFacts & { readonly token: object }>();
  const live = (change: { id?: string; cvcEndsAt?: string } = {}) => {
    const shown = token(change.id === undefined ? {} : { id: change.id });
    living.set(shown.id, { createdAt: 'then', cvcEndsAt: change.cvcEndsAt, token: shown });
  };
  /** Shows the existing tokens, like the executor. */
  const repeating: Repeating = {
    isOvertaken: async () => false,
    facts: async (ids) => ids.map((id) => living.get(id)),
    async show(answer, tokens) {
      let { body } = answer;
      for (const { id, at, createdAt } of tokens) {
        const found = living.get(id);
        if (found?.createdAt !== createdAt) throw new NotFoundError('A token of the first answer');
        if (at?.length === 0) body = found.token;
      }
      return { ...answer, body };
    },
  };
  return { living, live, repeating };
}

export const requestOf = (change: Partial<IdempotentRequest> = {}): IdempotentRequest => ({
  principal: principalWith(),
  method: 'POST',
  path: '/tokens',
  key: canary,
  ...change,
});

export const token = (change: object = {}) => ({
  id: 'tok_1',
  tenant_id: tenantId,
  type: 'card',
  data: { number: canary },
  containers: ['/pci/high/'],
  ...change,
});

export const ofToken = (id = 'tok_1') => [{ id, createdAt: 'then', at: [], by: 'create' } as const];

/** A handler that counts its runs. */
export function handler(
  answer: Answer = { status: 201, body: token(), position: '7' as Position, tokens: ofToken() },
) {
  const scopes: (readonly string[])[] = [];
  const handle = async (scope: readonly string[]) => {
    scopes.push(scope);
    return answer;
  };
  return { handle, scopes };
}
