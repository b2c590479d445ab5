import { setTimeout as sleep } from 'node:timers/promises';
import type { Application, BatchAnswer, LogEntry } from '@token-vault/contracts';
import {
  createDataDirectory,
  removeDataDirectory,
  revealingApplication,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const size = 1_000;
const chunk = 100;

describe('a batch whose vault is killed in the middle', () => {
  let dataDir: string;
  let vault: StandaloneProcess;
  let key = '';
  beforeAll(async () => {
    dataDir = await createDataDirectory();
    vault = await startStandaloneProcess({ dataDir });
    const body = revealingApplication();
    key = (await vault.client().expect<Application>(201, 'POST', '/applications', { body })).body.key ?? '';
  });
  afterAll(async () => {
    await vault.kill({ withPostgres: true });
    await removeDataDirectory(dataDir);
  });

  /** The log itself is asked: read models may be behind it. */
  const query = async <Row extends pg.QueryResultRow>(sql: string, values: unknown[]): Promise<Row[]> => {
    const client = new pg.Client(await vault.databaseUrl());
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  };
  const stored = async (trace: string): Promise<number> => {
    const sql = `select count(*)::integer as count from event_store.event where type = 'TokenCreated' and metadata->>'trace_id' = $1`;
    return (await query<{ count: number }>(sql, [trace]))[0]?.count ?? 0;
  };

  it.each([
    ['first chunks', 1, { isDeduplicated: false, withPostgres: false }],
    ['middle', 400, { isDeduplicated: false, withPostgres: true }],
    ['equal data', 300, { isDeduplicated: true, withPostgres: false }],
  ] as const)(
    'has whole chunks (%s), and a repeat finishes it without a second token',
    async (name, enough, kill) => {
      const trace = `killed-${enough}`;
      const headers = { 'SVC-IDEMPOTENCY-KEY': trace, 'SVC-TRACE-ID': trace };
      const tokens = Array.from({ length: size }, (_, index) => ({
        type: 'token',
        data: `${name} ${index}`,
        // Some share a value, so that claims of fingerprints are cut off too.
        ...(kill.isDeduplicated && index % 10 === 0
          ? { data: `${name} ${index % 300}`, deduplicate_token: true }
          : {}),
      }));
      const send = () =>
        vault.client(key).request<BatchAnswer>('POST', '/tokens/batch', { body: { tokens }, headers });
      const cut = send().catch(() => undefined);
      while ((await stored(trace)) < enough) await sleep(1);
      await vault.kill(kill);
      await cut;
      vault = await startStandaloneProcess({ dataDir });
      const before = await query<{ count: number }>(
        `select count(*)::integer as count from event_store.event
       where type = 'TokenCreated' and metadata->>'trace_id' = $1 group by xmin::text`,
        [trace],
      );
      // An item that waits for equal data is appended by itself.
      if (!kill.isDeduplicated) for (const { count } of before) expect(count % chunk).toBe(0);
      expect(before.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThanOrEqual(enough);
      const reply = await send();
      expect(reply.status).toBe(200);
      expect(reply.body.results.filter(({ status }) => status === 201 || status === 200)).toHaveLength(size);
      const ids = reply.body.results.map(({ token }) => token?.id ?? '');
      // With equal data: 900 of their own, and 30 values of the other 100.
      const distinct = kill.isDeduplicated ? 930 : size;
      expect([new Set(ids).size, await stored(trace)]).toEqual([distinct, distinct]);
      expect((await send()).body.results.map(({ token }) => token?.id)).toEqual(ids);
      // Each can be opened: its key was stored with it.
      for (let from = 0; from < size; from += 500) {
        const text = ids.slice(from, from + 500).map((id) => `{{ ${id} }}`);
        const shown = await vault
          .client(key)
          .expect<{ data: unknown }>(200, 'POST', '/detokenize', { body: { text } });
        const wanted = tokens.slice(from, from + 500).map(({ data }) => data);
        expect(shown.body.data).toEqual({ text: wanted });
      }
      const logged = `/logs?trace_id=${trace}&operation=create&size=100`;
      expect((await vault.client().expect<{ data: LogEntry[] }>(200, 'GET', logged)).body.data).toHaveLength(
        100,
      );
    },
    120_000,
  );
});
