import { createDataDirectory, removeDataDirectory, runsOf } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KilledVault, manners } from './killing.ts';

/** 5 with TEST_RUNS=full. */
const rounds = runsOf(5, 0.4);

describe('a vault that is killed under load', () => {
  let dataDir: string;
  let killed: KilledVault;

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    killed = new KilledVault(dataDir);
    await killed.start();
  });
  afterAll(() => removeDataDirectory(dataDir));

  it.each(
    Array.from({ length: rounds }, (_, round) =>
      manners.map((manner) => [round + 1, manner] as const),
    ).flat(),
  )('continues, round %i: kill -9 of %s', async (_round, manner) => {
    expect(await killed.killUnderLoad(manner)).toBeGreaterThan(0);
    expect([...killed.ledger.violations, ...killed.ledger.stale]).toEqual([]);
  });

  it('has lost no acknowledged write, kept no deleted data, and logged all operations', async () => {
    const { ledger } = killed;
    expect(ledger.deleted).toBeGreaterThan(rounds * manners.length);
    const access = await killed.access();
    expect(await ledger.audit(access)).toEqual([]);
    expect(await ledger.auditLog(access)).toEqual([]);
    expect(await killed.differingProjections()).toEqual([]);
    await access.manager.expect(200, 'GET', '/health/ready');
  });

  it('fails this check when a write is lost', async () => {
    const { ledger } = killed;
    const access = await killed.access();
    const [lost = '', kept = ''] = ledger.survivors;
    await access.tokens.expect(204, 'DELETE', `/tokens/${lost}`);
    ledger.pretend(kept);
    const findings = await ledger.audit(access);
    expect(findings).toContain(`${lost} was acknowledged and is lost`);
    expect(findings).toContain(`${lost} is not listed`);
    expect(findings).toContain(`${kept} was deleted and is readable`);
    expect(findings).toContain(`${kept} is deleted, its keys are not`);
    expect(await ledger.auditLog(access)).toEqual([
      `${kept} is deleted 0 times`,
      expect.stringMatching(`${kept}: \\d+ of \\d+ reads are in the log`),
    ]);
  });
});
