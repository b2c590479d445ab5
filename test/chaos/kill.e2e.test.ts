import { createDataDirectory, removeDataDirectory } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KilledVault } from './killing.ts';

// The short form of kill.slow.test.ts.
describe('a vault that is killed twice under load', () => {
  let dataDir: string;
  let killed: KilledVault;

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    killed = new KilledVault(dataDir);
    await killed.start();
  });
  afterAll(() => removeDataDirectory(dataDir));

  it('has every acknowledged write, no deleted data, and a complete log', async () => {
    const { ledger } = killed;
    await killed.killUnderLoad('the vault');
    await killed.killUnderLoad('both');
    const access = await killed.access();
    expect([...ledger.violations, ...ledger.stale]).toEqual([]);
    expect(ledger.deleted).toBeGreaterThan(0);
    expect(await ledger.audit(access)).toEqual([]);
    expect(await ledger.auditLog(access)).toEqual([]);
    expect(await killed.differingProjections()).toEqual([]);
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
