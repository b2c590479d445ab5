import { createTestDatabase } from '@token-vault/test-support';
import { expect, it, vi } from 'vitest';
import { openSession } from '../src/runner/session.ts';
import { statement } from '../src/runner/statements.ts';

it('a session keeps its plans, and makes new ones when its tables grow', async () => {
  const database = await createTestDatabase();
  const session = await openSession({ connectionString: database.url, name: 'test' });
  try {
    await session.client.query('create temporary table t (n integer)');
    const insert = statement('insert into t values ($1)', [1]);
    const query = vi.spyOn(session.client, 'query');
    const remadeAt: number[] = [];
    for (let n = 1; n <= 520; n += 1) {
      await session.transaction([insert]);
      if (query.mock.calls.some(([text]) => (text as unknown) === 'discard plans')) remadeAt.push(n);
      query.mockClear();
    }
    expect(remadeAt).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    const { rows } = await session.client.query(
      `select generic_plans::integer as generic, custom_plans::integer as custom from pg_prepared_statements`,
    );
    expect(rows).toEqual([{ generic: 520, custom: 0 }]);
  } finally {
    await session.close();
    await database.drop();
  }
});
