import { afterEach, describe, expect, it } from 'vitest';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  type TestDatabase,
  waitUntil,
} from '@token-vault/test-support';

const databases: TestDatabase[] = [];

async function database(...args: Parameters<typeof createTestDatabase>): Promise<TestDatabase> {
  const created = await createTestDatabase(...args);
  databases.push(created);
  return created;
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const pool = createTestPool(url);
  try {
    return (await pool.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await pool.end();
  }
}

afterEach(async () => {
  await Promise.all(databases.splice(0).map((created) => created.drop()));
});

describe('a test database', () => {
  it('is empty and shares nothing with another', async () => {
    const [one, other] = await Promise.all([database(), database()]);
    await query(one.url, 'create table only_here (id int)');
    await expect(query(other.url, 'select * from only_here')).rejects.toThrow('does not exist');
  });

  it('starts with the content of its template, which is filled once for callers at the same time', async () => {
    let fills = 0;
    const template = {
      name: `seeded ${Math.random()}`,
      fill: async (url: string) => {
        fills += 1;
        await query(url, 'create table seed as select 7 as n');
      },
    };
    const clones = await Promise.all([1, 2, 3, 4].map(() => database({ template })));
    for (const clone of clones) expect(await query(clone.url, 'select n from seed')).toEqual([{ n: 7 }]);
    expect(fills).toBe(1);
  });

  it('is filled again after a fill that failed', async () => {
    const name = `interrupted ${Math.random()}`;
    const failing = { name, fill: () => Promise.reject(new Error('no seed')) };
    await expect(database({ template: failing })).rejects.toThrow('no seed');
    const good = await database({
      template: { name, fill: async (url) => void (await query(url, 'create table seed ()')) },
    });
    expect(await query(good.url, 'select * from seed')).toEqual([]);
  });

  it('can be dropped while clients are connected, and twice', async () => {
    const { url, drop } = await createTestDatabase();
    const pool = createTestPool(url);
    await pool.query('select 1');
    await drop();
    await drop();
    await expect(pool.query('select 1')).rejects.toThrow();
    await pool.end();
  });
});

describe('waiting', () => {
  it('gives the last value of the condition and ignores earlier errors', async () => {
    let calls = 0;
    const result = await waitUntil(() => {
      calls += 1;
      if (calls === 1) throw new Error('not yet');
      return calls > 2 && 'done';
    });
    expect(result).toBe('done');
  });

  it('ends with the name of the condition and the last error', async () => {
    const waiting = waitUntil(() => Promise.reject(new Error('closed')), { timeoutMs: 1, what: 'the door' });
    await expect(waiting).rejects.toThrow('the door did not hold within 1 ms');
  });
});

describe('a manual clock', () => {
  it('does not move by itself', () => {
    const clock = manualClock('2030-06-01T00:00:00Z');
    const start = clock.now();
    expect(clock.now()).toEqual(start);
    clock.advance(1500);
    expect(clock.now().toISOString()).toBe('2030-06-01T00:00:01.500Z');
  });
});
