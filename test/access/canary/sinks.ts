import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Pagination } from '@token-vault/contracts';
import { type Client, createClient, createTestPool } from '@token-vault/test-support';
import type pg from 'pg';
import { dumpTables } from '../../e2e/traces.ts';
import type { World } from './world.ts';

/** The places where data may be left, by name. */
export type Sinks = ReadonlyMap<string, string>;

interface Page {
  readonly pagination: Pagination;
  readonly data: unknown[];
}

async function wholeLog(client: Client): Promise<string> {
  const entries: unknown[] = [];
  for (let number = 1; ; number += 1) {
    const page = await client.expect<Page>(200, 'GET', `/logs?size=100&page=${number}`);
    entries.push(...page.body.data);
    if (number >= page.body.pagination.total_pages)
      return entries.map((each) => JSON.stringify(each)).join('\n');
  }
}

/** The metrics of every process: one, or those that `stack.json` names. */
async function metricsOf({ vault, dataDir }: World): Promise<[string, string][]> {
  const described = await readFile(path.join(dataDir, 'stack.json'), 'utf8').catch(() => undefined);
  const processes = described
    ? (JSON.parse(described) as { name: string; port?: number }[]).filter(({ port }) => port !== undefined)
    : [{ name: 'standalone', port: Number(new URL(vault.url).port) }];
  return Promise.all(
    processes.map(async ({ name, port }): Promise<[string, string]> => {
      const { text } = await createClient(`http://127.0.0.1:${port ?? 0}`, '').request('GET', '/metrics');
      return [`metrics of ${name}`, text];
    }),
  );
}

/** The text of the last statement of each session of the server. */
async function statementsOf(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ row: string }>('select a::text as row from pg_stat_activity a');
  return rows.map(({ row }) => row).join('\n');
}

/** All places except files, as text. */
export async function openSinks(world: World): Promise<Sinks> {
  const logs = await Promise.all(
    (['management', 'management of another tenant'] as const).map(async (who): Promise<[string, string]> => [
      `GET /logs of ${who}`,
      await wholeLog(world.clientWithoutKey.withKey(world.keys[who] ?? '')),
    ]),
  );
  const metrics = await metricsOf(world);
  const pool = createTestPool(await world.vault.databaseUrl());
  try {
    await pool.query('analyze');
    const statements = await statementsOf(pool);
    const tables = await dumpTables(pool);
    await pool.query('checkpoint');
    return new Map([
      ...tables,
      ...logs,
      ...metrics,
      ['pg_stat_activity', statements],
      ['output', world.vault.output()],
      ['traces', world.spans()],
      ['files of nginx', world.gatewayFiles()],
    ]);
  } finally {
    await pool.end();
  }
}
