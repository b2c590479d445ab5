import { hasFullRuns, waitUntil } from '@token-vault/test-support';
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DistributedVault } from './distributed-vault.ts';
import { ageKeys } from './aged-keys.ts';
import { serverFaults } from './server-faults.ts';

// A quarter of an hour: `TEST_RUNS=full npm run test:all -- --project slow test/distributed/kills`. CI has the kills of
// faults.slow.test.ts.

const kills = 100;
const perRound = 10;
const longestPauseMs = 1_000;

const reason = hasFullRuns ? '' : ' (skipped: a quarter of an hour; set TEST_RUNS=full)';

describe.skipIf(!hasFullRuns)(`random kills of a vault of many processes under load${reason}`, () => {
  let vault: DistributedVault;
  const counts = new Map<string, number>();
  beforeAll(async () => {
    vault = await DistributedVault.start();
  }, 180_000);
  afterAll(() => vault.stop());

  /**
   * `kill -9` of any process of the stack, of the broker, of a session of Postgres, or a cut of the event store, also
   * while others are starting again. Each comes at a random moment.
   */
  async function killAny(): Promise<void> {
    await sleep(randomInt(longestPauseMs));
    const servers = serverFaults(vault);
    const running = (await vault.members()).filter(({ pid }) => pid !== null);
    const names = [...running.map(({ name }) => name), ...Object.keys(servers)];
    const name = names[randomInt(names.length)] ?? '';
    counts.set(name, (counts.get(name) ?? 0) + 1);
    await (servers[name]?.() ?? vault.kill(name));
  }

  it.each(Array.from({ length: kills / perRound }, (_, round) => round + 1))(
    `loses nothing in round %i of ${perRound} kills`,
    async () => {
      await vault.underLoad(async () => {
        // The sweep looks at the keys of appends that are under way, too.
        await ageKeys(vault);
        for (let kill = 0; kill < perRound; kill += 1) await killAny();
      });
      expect([...vault.ledger.violations, ...vault.ledger.stale]).toEqual([]);
    },
    300_000,
  );

  it('has every acknowledged write, one outcome of each run, and every event sealed once', async () => {
    // A run whose runner was killed fails at its deadline.
    const isOver = async () => (await vault.outcomes()).every(({ count }) => count > 0);
    await waitUntil(isOver, { timeoutMs: 150_000 }).catch(() => undefined);
    expect((await vault.outcomes()).filter(({ count }) => count !== 1)).toEqual([]);
    expect(await vault.findings()).toEqual([]);
    expect(await vault.sealFindings()).toEqual([]);
    const killed = [...counts].map(([name, count]) => `${name}: ${count}`).sort();
    const { acknowledged, deleted } = vault.ledger;
    process.stdout.write(
      `${kills} kills (${killed.join(', ')}): ${acknowledged} acknowledged writes, ${deleted} deletions, ${(await vault.outcomes()).length} runs\n`,
    );
  }, 900_000);
});
