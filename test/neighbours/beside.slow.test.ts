import { hasFullRuns, runsOf, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { strikeOn, type Attack, type Onslaught } from './attack.ts';
import { attacks } from './index.ts';
import { startNeighbours, type RunningNeighbours } from './running-neighbours.ts';

let running: RunningNeighbours;
beforeAll(async () => {
  running = await startNeighbours();
});
afterAll(() => running.end());

/** The number of rounds of the neighbour's requests during an attack: 4 with TEST_RUNS=full. */
const days = runsOf(4, 0.25);

/** Every third attack, all with TEST_RUNS=full. */
const chosen = attacks.filter((_attack, index) => hasFullRuns || index % 3 === 0);

async function underWay(onslaught: Onslaught, { atOnce, statuses, limit }: Attack): Promise<void> {
  const isMet = () => {
    if (limit !== undefined) return onslaught.answers.has(limit);
    return statuses.length === 0 ? onslaught.begun >= atOnce : onslaught.strikes > 0;
  };
  await waitUntil(isMet, { timeoutMs: 60_000, what: 'the attack' });
}

describe('a neighbour', () => {
  it.each(chosen)('is served while another tenant attacks: $line, $name', async (attack) => {
    const strike = await attack.prepare(running.attacker);
    const onslaught = strikeOn(strike, attack.atOnce);
    try {
      await underWay(onslaught, attack);
      for (let day = 0; day < days; day += 1)
        await Promise.all(Array.from({ length: 8 }, () => running.live()));
    } finally {
      await onslaught.stop();
    }
    const others = [...onslaught.answers.keys()].filter(
      (answer) => !attack.statuses.includes(Number(answer)),
    );
    expect(others.filter((answer) => answer !== 'none')).toEqual([]);
  });
});
