import { createProjectionAdmin, projections } from '@token-vault/projectors';
import { runsOf, waitUntil } from '@token-vault/test-support';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { anyStep, type AnyRun, type AnyStep } from './any-run.ts';
import { kill, rebuildThrough } from './killed-rebuild.ts';
import { caughtUp, checkpointsOf, contentOf, contentOfAll, damage } from './tables.ts';
import { openTwoDatabases, type TwoDatabases } from './two-databases.ts';

let databases: TwoDatabases;
beforeAll(async () => {
  databases = await openTwoDatabases();
});
afterAll(() => databases.close());

const names = projections.map(({ name }) => name);
const name = fc.constantFrom(...names);
const history = fc.array(anyStep, { minLength: 1, maxLength: 40 });
/** Cuts the connection of a projection's leader before the step of that number. */
const cuts = fc.array(fc.record({ before: fc.nat(39), name }), { maxLength: 3 });
type Cut = typeof cuts extends fc.Arbitrary<(infer Value)[]> ? Value : never;

async function takeAll(run: AnyRun, steps: readonly AnyStep[], planned: readonly Cut[] = []): Promise<void> {
  for (const [index, next] of steps.entries()) {
    for (const cut of planned) if (cut.before === index) await databases.cut(`projector ${cut.name}`);
    await run.take(next);
  }
}

const admin = () =>
  createProjectionAdmin({ store: databases.store, connectionString: databases.url, maxBatch: 7 });
const generationOf = async (of: string): Promise<number> =>
  (await admin().status()).find((each) => each.name === of)?.generation ?? 0;

/** Compares both databases after the whole log is applied. */
async function expectEqual(): Promise<void> {
  await caughtUp(databases.store, [databases.pool, databases.reference]);
  expect(await contentOfAll(databases.pool)).toEqual(await contentOfAll(databases.reference));
}

describe('after any history', () => {
  it('a rebuild of each read model equals the live one byte for byte, whenever and however it is killed', async () => {
    let killed = 0;
    await fc.assert(
      fc.asyncProperty(
        history,
        cuts,
        fc.array(kill, { minLength: 1, maxLength: 3 }),
        async (steps, planned, kills) => {
          await takeAll(await databases.newRun(), steps, planned);
          await expectEqual();
          for (const each of names) {
            const before = await generationOf(each);
            killed += await rebuildThrough(databases, each, kills);
            expect(await generationOf(each)).toBe(before + 1);
          }
          await expectEqual();
        },
      ),
      { numRuns: runsOf(15, 0.4) },
    );
    expect(killed).toBeGreaterThan(0);
  });

  it('it does so while writes continue and the two projectors lose leadership', async () => {
    await fc.assert(
      fc.asyncProperty(history, cuts, fc.array(kill, { maxLength: 2 }), async (steps, planned, kills) => {
        const runs = await Promise.all([databases.newRun(), databases.newRun()]);
        const writing = Promise.all(runs.map((run) => takeAll(run, steps, planned)));
        const rebuilding = (async () => {
          for (const each of names) await rebuildThrough(databases, each, kills);
        })();
        await Promise.all([writing, rebuilding]);
        await expectEqual();
      }),
      { numRuns: runsOf(10, 0.4) },
    );
  });

  it('a row that is planted, altered or dropped is found at its place, and repaired by a rebuild', async () => {
    const damages = fc.constantFrom('plant', 'alter', 'drop');
    await fc.assert(
      fc.asyncProperty(history, name, damages, fc.nat(), async (steps, of, how, pick) => {
        await takeAll(await databases.newRun(), steps);
        await caughtUp(databases.store, [databases.pool, databases.reference]);
        const table = await damage(databases.pool, of, how, pick);
        fc.pre(table !== undefined);
        // The comparison of the other properties must find the damage too.
        expect(await contentOf(databases.pool, of)).not.toEqual(await contentOf(databases.reference, of));
        const found = await admin().verify(of);
        expect(found?.tables.filter(({ surplus, missing }) => surplus + missing > 0)).toMatchObject([
          { table, surplus: how === 'drop' ? 0 : 1, missing: how === 'plant' ? 0 : 1 },
        ]);
        expect(await admin().rebuild(of)).toBe('swapped');
        expect(await admin().verify(of)).toMatchObject({ isEqual: true });
        await expectEqual();
      }),
      { numRuns: runsOf(25, 0.4) },
    );
  });
});

describe('a swap', () => {
  const lock = 4712;

  /** Stops between the two renames of a swap while the lock is held. */
  async function withGate(work: (letGo: () => Promise<void>) => Promise<void>): Promise<void> {
    const { pool } = databases;
    await pool.query(`
      create function stand() returns event_trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock_shared(${lock}); end $$;
      create event trigger stand on ddl_command_end when tag in ('ALTER SCHEMA') execute function stand()`);
    const holder = await pool.connect();
    await holder.query('select pg_advisory_lock($1)', [lock]);
    const letGo = async () => void (await holder.query('select pg_advisory_unlock_all()'));
    try {
      await work(letGo);
    } finally {
      await letGo();
      holder.release();
      await pool.query('drop event trigger stand; drop function stand()');
    }
  }
  const stands = async (of: string) => {
    const { rowCount } = await databases.pool.query(
      `select from pg_stat_activity where datname = current_database() and application_name = $1
        and wait_event_type = 'Lock' and query like '%alter schema%'`,
      [`rebuild ${of} holder`],
    );
    return rowCount === 1;
  };

  it('that is killed between its two renames leaves the live read model complete, and is done by the next', async () => {
    for (const of of names) {
      const before = await generationOf(of);
      await withGate(async (letGo) => {
        const swapping = admin()
          .rebuild(of)
          .catch((error: unknown) => error);
        await waitUntil(() => stands(of), { timeoutMs: 60_000, what: 'a swap in its middle' });
        expect(await contentOf(databases.pool, of)).toEqual(await contentOf(databases.reference, of));
        await databases.cut(`rebuild ${of} holder`);
        expect(await swapping).toBeInstanceOf(Error);
        await letGo();
      });
      expect(await generationOf(of)).toBe(before);
      await rebuildThrough(databases, of, []);
      expect(await generationOf(of)).toBe(before + 1);
    }
    await takeAll(await databases.newRun(), fc.sample(anyStep, { numRuns: 20, seed: 1 }));
    await expectEqual();
  });
});

describe('a checkpoint that another writer moves', () => {
  const move = (to: string, ...values: string[]) =>
    databases.pool.query(`update projections.checkpoint set position = ${to} where name = 'tokens'`, values);
  const create = { kind: 'create', slot: 0, isCard: true, isExpiring: false, isFingerprinted: false, transaction: undefined, container: '/x/', metadata: {} } as const; // prettier-ignore
  const heal = async () => {
    await rebuildThrough(databases, 'tokens', []);
    await expectEqual();
  };

  it('back, so that an event is applied twice, stops the projection', async () => {
    await takeAll(await databases.newRun(), [create]);
    await caughtUp(databases.store, [databases.pool]);
    await move('position - 1');
    const isStopped = async () =>
      (await checkpointsOf(databases.pool)).find((each) => each.name === 'tokens')?.status === 'failed';
    // The leader fails at the fence, reads the checkpoint, and applies the last event again.
    await takeAll(await databases.newRun(), [create]);
    await waitUntil(isStopped, { timeoutMs: 60_000, what: 'a failed projection' });
    await heal();
  });

  it('forward, so that an event is never applied, is found', async () => {
    await admin().pause('tokens');
    await takeAll(await databases.newRun(), [create]);
    // Positions have gaps in EventStoreDB.
    await move('$1::numeric', await databases.store.head());
    await admin().resume('tokens');
    await caughtUp(databases.store, [databases.pool, databases.reference]);
    const found = await admin().verify('tokens');
    expect(found?.tables[0]).toMatchObject({ table: 'token', surplus: 0, missing: 1 });
    await heal();
  });
});
