import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { createProjectionAdmin } from '../src/admin.ts';
import { projections } from '../src/projections/index.ts';
import { tokenCreated, tokenDeleted } from './events.ts';
import { eventually, openVault, type Vault } from './vault.ts';

const handOvers = 60;
/** Of `runner/leadership.ts`. */
const lockClass = 7_310_580;

let vault: Vault;
beforeAll(async () => {
  vault = await openVault();
});
afterAll(() => vault.close());

/** The sessions that lead, each a projection. */
async function leaders(): Promise<readonly number[]> {
  const rows = await vault.rows<{ pid: number }>(
    `select pid from pg_locks where locktype = 'advisory' and classid = $1 and granted
       and database = (select oid from pg_database where datname = current_database())`,
    [lockClass],
  );
  return rows.map(({ pid }) => pid);
}

it(`two projectors lose and repeat nothing in ${handOvers} hand-overs under load`, async () => {
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
    // One projection, or all at once as when a machine is lost.
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
