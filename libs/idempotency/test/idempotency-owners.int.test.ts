import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  type TestDatabase,
} from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createIdempotentAnswers, idempotencyMigrations } from '../src/index.ts';
import type { Answer, Repeating } from '@token-vault/operations';
import { principalWith, tenantId } from './principal.ts';

const body = { raw: 'what a reactor answered' };
const migrations = [...keyRingMigrations, ...idempotencyMigrations];
const clock = manualClock();
const living = new Set<string>();

let database: TestDatabase;
let pool: pg.Pool;
let keyRing: KeyRing;
let runs: number;
beforeEach(async () => {
  clock.set('2030-01-01T00:00:00Z');
  living.clear();
  runs = 0;
  database = await createTestDatabase();
  pool = createTestPool(database.url);
  for (const { sql } of migrations) await pool.query(sql);
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  keyRing = await createKeyRing({ pool, clock, rootKey, durability: 'own' });
  await keyRing.createTenantKeys(tenantId);
});
afterEach(async () => {
  await pool.end();
  await database.drop();
});

const repeating: Repeating = {
  isOvertaken: async () => false,
  facts: async (ids) =>
    ids.map((id) => (living.has(id) ? { createdAt: 'then', cvcEndsAt: undefined } : undefined)),
  show: (answer) => Promise.resolve(answer),
};

/** Runs the same request each time. */
function run(answer: Answer, ring: KeyRing = keyRing): Promise<Answer> {
  const answers = createIdempotentAnswers({ pool, keyRing: ring, clock });
  const request = { principal: principalWith(), method: 'POST', path: '/reactors', key: 'once' };
  const handle = () => {
    runs += 1;
    return Promise.resolve(answer);
  };
  return answers.run(request, handle, repeating);
}

/** A ring that calls `happens` during every sealing, before the key is stored. */
const meanwhile = (happens: () => void): KeyRing => ({
  ...keyRing,
  sealNew: (...sealing) => {
    happens();
    return keyRing.sealNew(...sealing);
  },
});

async function keysLeft(): Promise<string[]> {
  const { rows } = await pool.query<{ entity: string }>('select entity from key_ring.data_key');
  return rows.map(({ entity }) => entity);
}

const ofReactor: Answer = {
  body,
  endsWith: { entity: 'reactor:r1', isThere: () => Promise.resolve(living.has('r1')) },
};
const gone = { code: 'not_found' };

describe('a stored answer', () => {
  it('expires with the entity that it names, such as the reactor whose configuration it holds', async () => {
    living.add('r1');
    await run(ofReactor);
    expect(await run(ofReactor)).toEqual({ body, endsAtMs: expect.any(Number) as number });
    await keyRing.destroyKeysOfEntity(tenantId, 'reactor:r1');
    expect(await keysLeft()).toEqual([]);
    await expect(run(ofReactor)).rejects.toMatchObject(gone);
    expect(runs).toBe(1);
  });

  it.each([
    ['a token that was used', 't1', { body, tokens: [{ id: 't1', by: 'use' }] }],
    ['a token that its code has seen', 't1', { body, tokens: [{ id: 't1', by: 'seen' }] }],
    ['a token of its output', 't1', { body, tokens: [{ id: 't1', createdAt: 'then', by: 'output' }] }],
    ['the reactor', 'r1', ofReactor],
  ] satisfies [string, string, Answer][])(
    'is not kept, nor are its keys, when %s ends while they are made',
    async (_what, id, answer) => {
      living.add(id);
      await run(
        answer,
        meanwhile(() => living.delete(id)),
      );
      expect(await keysLeft()).toEqual([]);
      await expect(run(answer)).rejects.toMatchObject(gone);
      expect(runs).toBe(1);
    },
  );
});
