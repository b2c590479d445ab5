import type { Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  createTestPool,
  hasFullRuns,
  runsOf,
  waitUntil,
} from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DistributedVault } from './distributed-vault.ts';
import { ageKeys } from './aged-keys.ts';

/** How long a store or the broker is stopped: 30 s with TEST_RUNS=full. */
const awayMs = runsOf(30_000, 0.3);

/** All with TEST_RUNS=full. `reactors-killed.slow` kills a vault while reactors run. */
const killed = hasFullRuns
  ? ['command-service 1', 'query-service 1', 'projectors 1', 'projectors 2', 'reactor-runner 1', 'gateway']
  : ['command-service 1', 'projectors 1'];

const started = await DistributedVault.start();
const reason = 'missing' in started ? ` (skipped: ${started.missing})` : '';

describe.skipIf('missing' in started)(`a vault of many processes under load${reason}`, () => {
  let vault: DistributedVault;
  beforeAll(() => {
    vault = started as DistributedVault;
  });
  afterAll(() => vault.stop());

  it.each(killed)('loses nothing when %s is killed', async (name) => {
    await vault.underLoad(() => vault.kill(name));
    expect(await vault.findings()).toEqual([]);
  });

  it('makes a token completely or not at all when its writer is killed before its key, its event or its answer', async () => {
    const pool = createTestPool(vault.databaseUrl);
    const writers = ['command-service 1', 'command-service 2'];
    /** Creates a token, kills the writers once `isReached`, and ends the fault. Gives the ids. */
    const killAt = async (isReached: (id: string) => Promise<boolean>, end: () => Promise<unknown>) => {
      const [id, number] = [randomUUID(), cardNumber()];
      const answer = vault.tokens.request('POST', '/tokens', { body: cardToken(number, { id }) });
      await waitUntil(() => isReached(id), { timeoutMs: 60_000, what: 'the place of the kill' });
      for (const writer of writers) await vault.kill(writer);
      await end();
      expect([502, 504]).toContain((await answer).status);
      await vault.isReady();
      return { id, number };
    };
    const keysOf = async (id: string) =>
      (await pool.query('select from key_ring.data_key where entity = $1', [`token:${id}`])).rowCount ?? 0;
    const read = (id: string) => vault.tokens.request<Token>('GET', `/tokens/${id}`);
    const hear = () => vault.eventStore.tell('{"swallow":null}');
    try {
      // Nothing is appended while the key waits to be stored.
      const locker = await pool.connect();
      await locker.query('begin; lock table key_ring.data_key in exclusive mode');
      const isWaiting = async () =>
        (
          await pool.query(
            `select from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'insert into key_ring.data_key'`,
          )
        ).rows.length > 0;
      const first = await killAt(isWaiting, async () => {
        await locker.query('rollback');
        locker.release();
      });
      expect({ events: await vault.eventsOf(first.id), status: (await read(first.id)).status }).toEqual({
        events: 0,
        status: 404,
      });

      await vault.eventStore.tell('{"swallow":"before-storing"}');
      const second = await killAt(async (id) => (await keysOf(id)) > 0, hear);
      expect((await read(second.id)).status).toBe(404);
      const keys = await keysOf(second.id);
      expect(keys).toBeGreaterThan(0);
      // The key without an event hinders no other token of that id, and stays when that one is deleted.
      await vault.tokens.expect(201, 'POST', '/tokens', {
        body: cardToken(second.number, { id: second.id }),
      });
      expect((await read(second.id)).body.data).toMatchObject({ number: second.number });
      await vault.tokens.expect(204, 'DELETE', `/tokens/${second.id}`);
      const isLeft = async () => (await keysOf(second.id)) === keys;
      await waitUntil(isLeft, { timeoutMs: 60_000, what: 'the end of the keys of the deleted token' });

      // The next leader sweeps at once.
      await ageKeys(vault);
      await vault.eventStore.tell('{"swallow":"after-storing"}');
      const third = await killAt(async (id) => (await vault.eventsOf(id)) > 0, hear);
      expect((await read(third.id)).body.data).toMatchObject({ number: third.number });
      const lasting = async () =>
        (
          await pool.query('select from key_ring.data_key where entity = $1 and destroy_after is null', [
            `token:${second.id}`,
          ])
        ).rowCount;
      await waitUntil(async () => (await lasting()) === 0, {
        timeoutMs: 90_000,
        what: 'the sweep of the key without an event',
      });
      expect((await read(third.id)).body.data).toMatchObject({ number: third.number });
    } finally {
      await pool.end();
    }
  });

  it('answers 503 with Retry-After while the event store is unavailable, and continues afterwards', async () => {
    await vault.underLoad(async () => {
      await vault.eventStore.tell('down');
      const until = performance.now() + awayMs;
      const answer = await vault.tokens.request('POST', '/tokens', { body: cardToken() });
      expect({ status: answer.status, retryAfter: answer.headers.get('retry-after') }).toEqual({
        status: 503,
        retryAfter: '1',
      });
      await sleep(until - performance.now());
      await vault.eventStore.tell('up');
    });
    expect(await vault.findings()).toEqual([]);
  });

  it('continues when the broker is killed, and runs the invocations made meanwhile', async ({ skip }) => {
    const { faults } = vault.kafka;
    if (!faults) return skip('the broker is not ours to kill');
    await vault.underLoad(async () => {
      await faults.kill();
      const before = vault.ledger.acknowledged;
      await sleep(awayMs);
      expect(vault.ledger.acknowledged).toBeGreaterThan(before);
      await faults.start();
    });
    expect(await vault.findings()).toEqual([]);
  });

  it('answers 503 while Postgres is unavailable, and continues afterwards', async () => {
    await vault.underLoad(async () => {
      await vault.stopPostgres();
      const answer = await vault.tokens.request('POST', '/tokens', { body: cardToken() });
      expect({ status: answer.status, retryAfter: answer.headers.get('retry-after') }).toEqual({
        status: 503,
        retryAfter: '1',
      });
      // The clients of the load continue for five seconds without Postgres.
      await sleep(5_000);
      await vault.startPostgres();
    });
    expect(await vault.findings()).toEqual([]);
  });

  it('has given every invocation exactly one outcome', async () => {
    // A run whose runner was killed fails at its deadline.
    await waitUntil(async () => (await vault.outcomes()).every(({ count }) => count > 0), {
      timeoutMs: 150_000,
      what: 'an outcome of each invocation',
    });
    const outcomes = await vault.outcomes();
    expect(outcomes.length).toBeGreaterThan(20);
    expect(outcomes.filter(({ count }) => count !== 1)).toEqual([]);
  });

  it('has sealed every event once', async () => {
    expect(await vault.sealFindings()).toEqual([]);
  });
});
