import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { runsOf } from '@token-vault/test-support';
import { createProjectionAdmin } from '../src/admin.ts';
import { projections } from '../src/projections/index.ts';
import { tokenCreated, tokenDeleted } from './events.ts';
import { eventually, openVault, type Vault } from './vault.ts';

/** 60 with TEST_RUNS=full. */
const handOvers = runsOf(60, 0.35);
/** The lock class of `runner/leadership.ts`. */
const lockClass = 7_310_580;

let vault: Vault;
beforeAll(async () => {
  vault = await openVault();
});
afterAll(() => vault.close());

/** The sessions that lead a projection each. */
async function leaders(of: Vault = vault): Promise<readonly number[]> {
  const rows = await of.rows<{ pid: number }>(
    `select pid from pg_locks where locktype = 'advisory' and classid = $1 and granted
       and database = (select oid from pg_database where datname = current_database())`,
    [lockClass],
  );
  return rows.map(({ pid }) => pid);
}

it(`two projectors lose and repeat no event in ${handOvers} hand-overs under load`, async () => {
  vault.start({ maxBatch: 5 });
  vault.start({ maxBatch: 9 });
  let position = '0' as Position;
  let isOver = false;
  let count = 0;
  const writing = (async () => {
    while (!isOver) {
      const name = `token-${count++}`;
      position = await vault.append(tokenCreated(name));
      if (count % 3 === 0) position = await vault.append(tokenDeleted(name));
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  })();

  const seen = new Set<number>();
  for (let round = 0; round < handOvers; round++) {
    await eventually(async () => (await leaders()).length === projections.length);
    const now = await leaders();
    for (const pid of now) seen.add(pid);
    // The leader of one projection, or all leaders at once as at the loss of a machine.
    const lost = round % 5 === 0 ? now : now.slice(round % now.length, (round % now.length) + 2);
    await vault.rows('select pg_terminate_backend(pid) from unnest($1::int[]) as t(pid)', [lost]);
  }
  isOver = true;
  await writing;
  await vault.reached(position);
  expect(seen.size).toBeGreaterThan(handOvers);

  const deleted = Math.floor(count / 3);
  expect(await vault.rows('select count(*)::int from rm_tokens.token')).toEqual([{ count: count - deleted }]);
  expect(await vault.rows('select count(*)::int from rm_log.entry')).toEqual([{ count: count + deleted }]);
  const admin = createProjectionAdmin({ store: vault.store, connectionString: vault.url });
  for (const { name } of projections) expect(await admin.verify(name)).toMatchObject({ isEqual: true });
});

it('a frozen leader is replaced, a live one is not', async () => {
  const name = 'reactors';
  const standing = await openVault();
  onTestFinished(() => standing.close());
  // The session of a stopped process: connected, without heartbeats.
  const silent = new pg.Client({ connectionString: standing.url });
  silent.on('error', () => undefined);
  await silent.connect();
  await silent.query('select pg_advisory_lock($1, hashtext($2))', [lockClass, name]);
  const only = projections.filter((each) => each.name === name);
  standing.start({ projections: only });
  standing.start({ projections: only });
  await standing.reached(await standing.append(tokenCreated('a')), [name]);
  const before = await leaders(standing);
  // Longer than the other process waits for a heartbeat.
  await delay(6_000);
  expect(await leaders(standing)).toEqual(before);
});
