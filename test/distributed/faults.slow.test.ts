import { cardToken, hasFullRuns, runsOf, waitUntil } from '@token-vault/test-support';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DistributedVault } from './distributed-vault.ts';

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

  it('says 503 and when to come again while the event store is away, and goes on by itself', async () => {
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

  it('goes on when the broker is killed, and runs what was invoked meanwhile', async ({ skip }) => {
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

  it('says 503 while Postgres is away, and goes on by itself', async () => {
    await vault.underLoad(async () => {
      await vault.stopPostgres();
      const answer = await vault.tokens.request('POST', '/tokens', { body: cardToken() });
      expect({ status: answer.status, retryAfter: answer.headers.get('retry-after') }).toEqual({
        status: 503,
        retryAfter: '1',
      });
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
