import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, waitUntil } from '@token-vault/test-support';
import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createLocks } from '../src/webhooks/locks.ts';

it('a delivery whose holder is frozen is made by another replica', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const frozen = new pg.Client({ connectionString: database.url });
  frozen.on('error', () => undefined);
  await frozen.connect();
  onTestFinished(() => frozen.end().catch(() => undefined));
  // Like a stopped process: its session holds the lock and sends no heartbeats.
  await frozen.query(`select pg_advisory_lock($1, hashtext('delivery'))`, [0x7765_6268]);
  const locks = createLocks(database.url, silentLogger);
  onTestFinished(() => locks.close());
  let made = 0;
  const isMade = async () => {
    await locks.hold('delivery', async () => void (made += 1));
    return made > 0;
  };
  expect(await isMade()).toBe(false);
  await waitUntil(isMade, { timeoutMs: 15_000, what: 'the delivery' });
});

it('many deliveries begin at once without a warning of the driver, and exclude those of another replica', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const [own, other] = [createLocks(database.url, silentLogger), createLocks(database.url, silentLogger)];
  onTestFinished(async () => {
    await Promise.all([own.close(), other.close()]);
  });
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  onTestFinished(() => warn.mockRestore());
  const names = Array.from({ length: 20 }, (_, index) => `delivery ${index}`);
  const held: string[] = [];
  const taken: string[] = [];
  let tried = 0;
  // No lock is free before each has been tried by the other replica.
  const hold = (name: string) =>
    own.hold(name, async () => {
      held.push(name);
      await waitUntil(() => held.length === names.length, { what: 'all deliveries' });
      await Promise.all(names.map((each) => other.hold(each, async () => void taken.push(each))));
      tried += 1;
      await waitUntil(() => tried === names.length, { what: 'the other replica' });
    });
  await Promise.all(names.map(hold));
  expect(held.toSorted()).toEqual(names.toSorted());
  expect(taken).toEqual([]);
  expect(warn).not.toHaveBeenCalled();
});
