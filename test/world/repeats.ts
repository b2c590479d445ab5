import { randomUUID } from 'node:crypto';
import type { Token } from '@token-vault/contracts';
import { type Answer, type Client, waitUntil } from '@token-vault/test-support';
import type { Database } from './database.ts';

/** An idempotent request. Each call of the result sends it with the same key. */
export function repeatable<Body = Token>(
  client: Client,
  method: string,
  path: string,
  body?: object,
): () => Promise<Answer<Body>> {
  const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
  return () => client.request<Body>(method, path, { headers, ...(body === undefined ? {} : { body }) });
}

/**
 * As if the process had died between the append and the answer of the requests so far. Waits until their answers are
 * stored, which may be a moment after they were sent.
 */
export async function loseAnswers(database: Database): Promise<void> {
  const held = `select from idempotency.answer where answer is null and held_until > '-infinity'`;
  await waitUntil(async () => (await database.query(held)).rowCount === 0, { what: 'answers stored' });
  await database.query(`update idempotency.answer set answer = null, held_until = '-infinity'`);
}
