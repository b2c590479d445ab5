import type { Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  createTestPool,
  hasDouble,
  lackOfDouble,
  hasFullRuns,
  runsOf,
  waitUntil,
} from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DistributedVault } from './distributed-vault.ts';
import { ageKeys } from './aged-keys.ts';
import { linesOf } from './log-lines.ts';
import { crashPostgres } from './server-faults.ts';

/** How long a store or the broker is stopped: 30 s with TEST_RUNS=full. */
const awayMs = runsOf(30_000, 0.3);

/** Longer than the router takes to give up a service that stands still. */
const frozenMs = runsOf(30_000, 0.4);

const kinds = [
  'command-service 1',
  'query-service 1',
  'projectors 1',
  'projectors 2',
  'reactor-runner 1',
  'proxy 1',
  'gateway',
];

/** Each kind of process with TEST_RUNS=full, else the given ones in turn. */
const processes = (...these: string[]) =>
  hasFullRuns ? kinds.map((name) => ({ these: [name] })) : [{ these }];

describe('a vault of many processes under load', () => {
  let vault: DistributedVault;
  beforeAll(async () => {
    vault = await DistributedVault.start();
  }, 180_000);
  afterAll(() => vault.stop());

  /** The differences from the acknowledged state after trouble with each of these processes, one after the other. */
  const findingsAfter = async (these: readonly string[], trouble: (name: string) => Promise<void>) => {
    await vault.underLoad(async () => {
      for (const name of these) {
        await trouble(name);
        await vault.isReady();
      }
    });
    return vault.findings();
  };

  // `reactors-killed.slow` kills a vault while reactors run.
  it.each(processes('command-service 1', 'projectors 1'))(
    'loses nothing when $these get SIGKILL',
    async ({ these }) => {
      expect(await findingsAfter(these, (name) => vault.kill(name))).toEqual([]);
    },
  );

  it.each(processes('reactor-runner 1', 'gateway'))(
    'loses nothing when $these get SIGTERM',
    async ({ these }) => {
      expect(await findingsAfter(these, (name) => vault.terminate(name))).toEqual([]);
    },
  );

  it.each(processes('query-service 1', 'proxy 1'))(
    'loses nothing when $these stand still',
    async ({ these }) => {
      expect(await findingsAfter(these, (name) => vault.freeze(name, frozenMs))).toEqual([]);
    },
  );

  it('opens every acknowledged token when Postgres loses its last commits', async () => {
    const pool = createTestPool(vault.databaseUrl);
    await pool.query('begin; set local synchronous_commit = on; create table public.probe (); commit');
    const bodies = Array.from({ length: 8 }, () => cardToken());
    const made = await Promise.all(
      bodies.map((body) => vault.tokens.expect<Token>(201, 'POST', '/tokens', { body })),
    );
    await pool.query('insert into public.probe default values');
    await crashPostgres(vault.databaseUrl);
    await vault.isReady();
    // A commit that is not waited for is lost.
    expect((await pool.query('select from public.probe')).rowCount).toBe(0);
    await pool.query('drop table public.probe').finally(() => pool.end());
    for (const [index, { body }] of made.entries()) {
      const read = await vault.tokens.expect<Token>(200, 'GET', `/tokens/${body.id}`);
      expect(read.body.data).toMatchObject({ number: bodies[index]?.data.number });
    }
  });

  // A server of EVENTSTOREDB_SERVER answers every append.
  it.skipIf(!hasDouble)(
    `makes a token completely or not at all when its writer is killed before its key, its event or its answer${lackOfDouble}`,
    async () => {
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
        }).catch(async (cause: unknown) => {
          const noted = await pool.query('select * from housekeeping.key_sweep');
          const told = linesOf(vault.vault.output()).filter(({ task }) => task !== undefined);
          throw new Error(`not swept: ${JSON.stringify([noted.rows, told.slice(-20)])}`, { cause });
        });
        expect((await read(third.id)).body.data).toMatchObject({ number: third.number });
      } finally {
        await pool.end();
      }
    },
  );

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
    const { kafka } = vault;
    if ('missing' in kafka) return skip(kafka.missing);
    const { faults } = kafka;
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
