import path from 'node:path';
import type { Token } from '@token-vault/contracts';
import {
  createTestPool,
  runsOf,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeCaller, type Caller } from './attack.ts';

const permissions = ['token:create', 'token:read', 'token:search'];
let dataDir: string;
let vault: StandaloneProcess;
let caller: Caller;
let caller2: Caller;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  const place = { url: vault.url, manager: vault.client() };
  [caller, caller2] = [await makeCaller(place, { permissions }), await makeCaller(place, { permissions })];
});
afterAll(async () => {
  await vault.stop();
  await removeDataDirectory(dataDir);
});

const open = async () => (await caller.expect<{ id: string }>(201, 'POST', '/transactions')).body.id;

/** Enlists `count` new tokens, a hundred a request, and gives their ids. */
async function enlist(transaction: string, count: number): Promise<string[]> {
  const headers = { 'SVC-TRANSACTION-ID': transaction };
  const ids: string[] = [];
  for (let made = 0; made < count; made += 400) {
    const answers = Array.from({ length: Math.min(4, (count - made) / 100) }, () =>
      caller.expect<string[]>(200, 'POST', '/tokenize', {
        body: Array.from({ length: 100 }, () => crypto.randomUUID()),
        headers,
      }),
    );
    for (const { body } of await Promise.all(answers)) ids.push(...body);
  }
  return ids;
}

const countOf = async (client: Caller) =>
  (await client.expect<{ pagination: { total_items: number } }>(200, 'GET', '/tokens?size=0')).body.pagination
    .total_items;

async function countOfKeys(): Promise<number> {
  const pool = createTestPool(await vault.databaseUrl());
  try {
    const { rows } = await pool.query<{ count: number }>(
      `select count(*)::int as count from key_ring.data_key where entity like 'token:%'`,
    );
    return rows[0]?.count ?? 0;
  } finally {
    await pool.end();
  }
}

/** 2,000 with TEST_RUNS=full. */
const many = runsOf(2_000, 0.25);

describe(`a transaction of ${many} tokens`, () => {
  it('shows no writes before its commit and all of them after it', async () => {
    const before = await countOf(caller);
    const transaction = await open();
    const ids = await enlist(transaction, many);
    expect([await countOf(caller), await countOf(caller2)]).toEqual([before, before]);
    await caller2.expect(404, 'GET', `/tokens/${ids[many - 1]}`);
    await caller.expect(200, 'POST', `/transactions/${transaction}/commit`);
    expect(await countOf(caller2)).toBe(before + many);
    for (const id of [ids[0], ids[many / 2], ids[many - 1]])
      await caller2.expect<Token>(200, 'GET', `/tokens/${id}`);
    await caller.expect(409, 'POST', `/transactions/${transaction}/commit`);
  });

  it('leaves neither tokens nor keys when it is rolled back', async () => {
    const before = [await countOf(caller), await countOfKeys()];
    const transaction = await open();
    await enlist(transaction, many);
    expect(await countOfKeys()).toBe((before[1] ?? 0) + many);
    await caller.expect(200, 'POST', `/transactions/${transaction}/rollback`);
    expect([await countOf(caller), await countOfKeys()]).toEqual(before);
    await caller.expect(409, 'POST', `/transactions/${transaction}/commit`);
  });

  it('leaves neither tokens nor keys when its hour is over, and can no longer be committed', async () => {
    const before = [await countOf(caller), await countOfKeys()];
    const transaction = await open();
    const [id] = await enlist(transaction, many);
    await vault.stop();
    // A vault on the same data whose clock is an hour ahead.
    const later = path.join(import.meta.dirname, 'an-hour-later.ts');
    vault = await startStandaloneProcess({ dataDir, env: { NODE_OPTIONS: `--import=${later}` } });
    caller = { ...vault.client(caller.key), applicationId: caller.applicationId, key: caller.key };
    await caller.expect(409, 'POST', `/transactions/${transaction}/commit`);
    await caller.expect(404, 'GET', `/tokens/${id}`);
    await waitUntil(async () => (await countOfKeys()) === before[1], { timeoutMs: 120_000, what: 'erasure' });
    expect(await countOf(caller)).toBe(before[0]);
  });
});

describe('a transaction of 10,000 tokens', () => {
  it('accepts no more, and is committed completely', async () => {
    const before = await countOf(caller);
    const transaction = await open();
    await enlist(transaction, 10_000);
    const headers = { 'SVC-TRANSACTION-ID': transaction };
    const one = { body: { type: 'token', data: 'one too many' }, headers };
    const refused = await caller.expect<{ type: string }>(409, 'POST', '/tokens', one);
    expect(refused.body.type).toBe('urn:token-vault:problem:transaction-full');
    const { headers: said } = await caller.expect(200, 'POST', `/transactions/${transaction}/commit`);
    // On a busy machine the answer may come before the read models are up to date, and reports that.
    if (said.get('svc-consistency') !== 'pending') expect(await countOf(caller)).toBe(before + 10_000);
    const seen = new Set<number>();
    await waitUntil(async () => seen.add(await countOf(caller)).has(before + 10_000), {
      timeoutMs: 60_000,
      what: 'the commit in the read models',
    });
    expect([before, before + 10_000]).toEqual(expect.arrayContaining([...seen]));
  });
});
