import { presentTenants } from '@token-vault/batching';
import { UnavailableError, type OperationId } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { managerOf, principalOf, setUpVault, type Request, type Vault } from './vault.ts';

let vault: Vault;
beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());

/** Runs `work` while no statement can read that table. */
async function whileLocked(table: string, work: () => Promise<void>): Promise<void> {
  const client = await vault.pool.connect();
  try {
    await client.query(`begin; lock table ${table} in access exclusive mode`);
    await work();
  } finally {
    await client.query('rollback');
    client.release();
  }
}

const search = { body: { query: 'type:token' } };
const lists: readonly [OperationId, 'reader' | 'manager', Request][] = [
  ['listTokens', 'reader', {}],
  ['searchTokens', 'reader', search],
  ['listLogs', 'manager', {}],
  ['listApplications', 'manager', {}],
  ['listReactors', 'manager', {}],
  ['getUsageReport', 'manager', {}],
];

describe('an application whose lists are stopped', () => {
  it('waits and is refused in each of its lists; its look-ups and the lists of others are answered', async () => {
    const [greedy, other] = [await vault.tenant(), await vault.tenant()];
    // Of one application, so that both share its places in the queue.
    const manager = managerOf(greedy);
    const { applicationId } = manager;
    const mine = { reader: principalOf(greedy, { applicationId }), manager };
    const theirs = principalOf(other);
    const id = await vault.token(greedy);
    await vault.token(other);
    await vault.settle();
    let refused = 0;
    let pending: Promise<unknown>[] = [];
    await whileLocked('rm_log.entry', async () => {
      pending = Array.from({ length: 300 }, () =>
        vault.call('listLogs', mine.manager).catch(() => {
          refused += 1;
        }),
      );
      await waitUntil(() => Promise.resolve(refused >= 95), { what: 'a full queue' });
      for (const [operation, as, request] of lists)
        await expect(vault.call(operation, mine[as], request), operation).rejects.toThrow(UnavailableError);
      expect(await vault.call('getToken', mine.reader, { params: { id } })).toMatchObject({ id });
      const page = await vault.call<{ data: unknown[] }>('searchTokens', theirs, search);
      expect(page.data).toHaveLength(1);
    });
    await Promise.all(pending);
    expect(refused).toBe(95);
  });
});

describe('a tenant that lists large tokens beside another tenant', () => {
  it('waits before its next list three times as long as the page takes', async () => {
    const [greedy, other] = [await vault.tenant(), await vault.tenant()];
    const reader = principalOf(greedy);
    for (let made = 0; made < 20; made += 1) await vault.token(greedy, { data: 'x'.repeat(12_000) });
    await vault.settle();
    presentTenants.see(other);
    const begunMs = performance.now();
    await vault.call('searchTokens', reader, search);
    await vault.call('searchTokens', reader, search);
    // Twenty masks of 16,000 characters that are sealed count as 35 ms.
    expect(performance.now() - begunMs).toBeGreaterThan(95);
  });
});

describe('a list that takes longer than a statement may', () => {
  it('is stopped, and the answer says so', async () => {
    const manager = managerOf(await vault.tenant());
    await whileLocked('rm_applications.application', async () => {
      await stopWaiting(vault.call('listApplications', manager));
    });
  });
});

/** Cancels the waiting statement with 57014, as `statement_timeout` does. */
async function stopWaiting(call: Promise<unknown>): Promise<void> {
  const refused = expect(call).rejects.toThrow('The query took too long and was stopped.');
  await waitUntil(
    async () => {
      const { rowCount } = await vault.pool.query(
        `select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
      );
      return (rowCount ?? 0) > 0;
    },
    { what: 'a statement that waits' },
  );
  await refused;
}
