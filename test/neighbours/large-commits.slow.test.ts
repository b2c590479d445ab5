import { createTestPool, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeCaller, publicCaller, type Caller } from './attack.ts';
import { startNeighbours, type RunningNeighbours } from './running-neighbours.ts';

let running: RunningNeighbours;
beforeAll(async () => {
  running = await startNeighbours();
});
afterAll(() => running.end());

/** Each token of this type takes the read model 1.5 s, as some 10 MB of tokens do on a busy machine. */
const slow = 'slow';
async function slowDown(): Promise<void> {
  const pool = createTestPool(await running.vault.databaseUrl());
  try {
    await pool.query(`
      create function rm_tokens.wait() returns trigger language plpgsql as $$ begin perform pg_sleep(1.5); return new; end $$;
      create trigger wait before insert on rm_tokens.token for each row when (new.id like '${slow}%') execute function rm_tokens.wait()`);
  } finally {
    await pool.end();
  }
}

/** Opens a transaction with a token of 400 KB. */
async function enlist(caller: Caller, n: number): Promise<string> {
  const { id } = (await caller.expect<{ id: string }>(201, 'POST', '/transactions')).body;
  const body = { type: 'token', id: `${slow}-${n}`, data: 'x'.repeat(400_000) };
  await caller.expect(201, 'POST', '/tokens', { body, headers: { 'SVC-TRANSACTION-ID': id } });
  return id;
}

async function commit(caller: Caller, id: string): Promise<void> {
  const once = async () => (await caller.request('POST', `/transactions/${id}/commit`)).status;
  await waitUntil(
    async () => {
      const status = await once();
      expect([200, 503]).toContain(status);
      return status === 200;
    },
    { timeoutMs: 120_000, what: 'a commit' },
  );
}

it('whose lists are asked for is served while a public key of another tenant commits ten large transactions at once', async () => {
  await slowDown();
  const attacker = await makeCaller(running.attacker, publicCaller);
  const reader = await makeCaller(running.attacker, { permissions: ['token:read'] });
  const neighbour = await makeCaller(running.neighbour, { permissions: ['token:read'] });
  const transactions = await Promise.all(Array.from({ length: 10 }, (_, n) => enlist(attacker, n)));
  const statuses = new Set<number>();
  let isOver = false;
  const listing = (async () => {
    while (!isOver) statuses.add((await neighbour.request('GET', '/tokens?size=1')).status);
  })();
  await Promise.all(transactions.map((id) => commit(attacker, id)));
  const ids = transactions.map((_, n) => `id=${slow}-${n}`).join('&');
  const isShown = async () => {
    const { body, status } = await reader.request<{ data: unknown[] }>('GET', `/tokens?${ids}`);
    return status === 200 && body.data.length === transactions.length;
  };
  await waitUntil(isShown, { timeoutMs: 120_000, what: 'the tokens' });
  isOver = true;
  await listing;
  expect([...statuses]).toEqual([200]);
});
