import { createProjectionAdmin, RebuildUnderWayError } from '@token-vault/projectors';
import fc from 'fast-check';
import type { TwoDatabases } from './two-databases.ts';

/** Where and how a rebuild is killed: after that many batches, or when it holds the live read model to swap. */
export const kill = fc.record({
  at: fc.oneof(fc.nat(30), fc.constant('the swap' as const)),
  how: fc.constantFrom('abort', 'cut its filler', 'cut its holder'),
});
export type Kill = typeof kill extends fc.Arbitrary<infer Value> ? Value : never;

async function attempt(databases: TwoDatabases, name: string, planned?: Kill): Promise<string> {
  const { url, store } = databases;
  const abort = new AbortController();
  let isKilled = false;
  async function killNow(): Promise<void> {
    if (isKilled || !planned) return;
    isKilled = true;
    if (planned.how === 'abort') abort.abort();
    else await databases.cut(planned.how === 'cut its filler' ? `rebuild ${name}` : `rebuild ${name} holder`);
  }
  const isHeld = async (): Promise<boolean> => {
    const { rowCount } = await databases.pool.query(
      `select from pg_stat_activity where datname = current_database() and application_name = $1
        and state = 'idle in transaction'`,
      [`rebuild ${name} holder`],
    );
    return rowCount === 1;
  };
  // The head is read once more when the live read model is held.
  const watched = {
    ...store,
    async head() {
      if (planned?.at === 'the swap' && (await isHeld())) await killNow();
      return store.head();
    },
  };
  let batches = 0;
  const onProgress = () => {
    if (typeof planned?.at === 'number' && batches++ === planned.at) void killNow();
  };
  const admin = createProjectionAdmin({ store: watched, connectionString: url, maxBatch: 7 });
  try {
    return await admin.rebuild(name, { signal: abort.signal, onProgress });
  } catch (error) {
    // Postgres releases the locks of a killed session after a moment.
    if (isKilled || error instanceof RebuildUnderWayError) return 'killed';
    throw error;
  }
}

/** Rebuilds until it is done, killed as planned. Gives the number of kills. */
export async function rebuildThrough(
  databases: TwoDatabases,
  name: string,
  kills: readonly Kill[],
): Promise<number> {
  let killed = 0;
  for (const planned of kills) {
    const outcome = await attempt(databases, name, planned);
    if (outcome === 'swapped') return killed;
    killed++;
  }
  for (;;) {
    const outcome = await attempt(databases, name);
    if (outcome === 'swapped') return killed;
    if (outcome !== 'killed') throw new Error(`the rebuild of ${name} was ${outcome}`);
  }
}
