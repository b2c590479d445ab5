// `npm run bench:lists [-- tokens entries]`: lists, searches and the log of one big tenant, as queries and over HTTP; 1,000,000
// tokens and 5,000,000 entries by default, which takes about ten minutes, most of it to seed.
import {
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { root } from './server.ts';

const scale = process.argv.slice(2);
const rounds = 100;
const execute = promisify(execFile);

async function queries(databaseUrl: string, tenantId: string): Promise<string> {
  const script = path.join(root, 'query-service/bench/lists.ts');
  const rootKeyFile = path.join(dataDir, 'root.key');
  const env = { ...process.env, DATABASE_URL: databaseUrl, TENANT_ID: tenantId, ROOT_KEY_FILE: rootKeyFile };
  return (await execute(process.execPath, [script, ...scale], { env })).stdout;
}

/** The newest days of the seeded log, whose entries are 10 s apart (query-service/bench/seed.ts). */
function ofDays(days: number): string {
  const end = Date.parse('2029-01-01') + Number(scale[1] ?? 5_000_000) * 10_000;
  const range = { start_date: new Date(end - days * 86_400_000), end_date: new Date(end) };
  return Object.entries(range)
    .map(([name, time]) => `${name}=${time.toISOString()}`)
    .join('&');
}

/** Median and p99 in milliseconds of one caller that sends one request after the other. */
async function timed(ask: () => Promise<Response>): Promise<string> {
  const times: number[] = [];
  for (let round = -5; round < rounds; round += 1) {
    const startedAt = performance.now();
    const response = await ask();
    const text = await response.text();
    if (!response.ok) throw new Error(`answered ${response.status}: ${text}`);
    if (round >= 0) times.push(performance.now() - startedAt);
  }
  times.sort((left, right) => left - right);
  const quantile = (share: number) => times[Math.ceil(share * rounds) - 1]?.toFixed(1);
  return `${quantile(0.5)} | ${quantile(0.99)}`;
}

async function overHttp(baseUrl: string, managementKey: string): Promise<string[]> {
  const ask = (key: string, route: string, body?: object) =>
    fetch(`${baseUrl}${route}`, {
      ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
      headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
    });
  // Seeding delays the projections, and one that is more than 10 s behind gives no answers (ADR 21).
  await waitUntil(async () => (await fetch(`${baseUrl}/health/ready`)).ok, { timeoutMs: 300_000 });
  // Seeded tokens are not really sealed. A caller that sees them redacted opens none.
  const permissions = ['token:read', 'token:search'];
  const rule = { description: 'counts', priority: 1, container: '/', transform: 'redact', permissions };
  const made = await ask(managementKey, '/applications', { name: 'lists', type: 'private', rules: [rule] });
  const { key } = (await made.json()) as { key: string };
  const cases: Record<string, () => Promise<Response>> = {
    'GET /tokens, page 1': () => ask(key, '/tokens?size=20'),
    'GET /tokens, page 1,000': () => ask(key, '/tokens?size=20&page=1000'),
    'GET /tokens?type=card, page 1': () => ask(key, '/tokens?size=20&type=card'),
    'GET /tokens?metadata.customer=4242': () => ask(key, '/tokens?size=20&metadata.customer=4242'),
    'POST /tokens/search by metadata': () =>
      ask(key, '/tokens/search', { query: 'metadata.customer:4242', size: 20 }),
    'GET /logs, page 1': () => ask(managementKey, '/logs?size=20'),
    'GET /logs, page 1,000': () => ask(managementKey, '/logs?size=20&page=1000'),
    'console: GET /logs of 30 days, page 1': () => ask(managementKey, `/logs?size=25&${ofDays(30)}`),
    'console: GET /logs of 30 days, page 1,000': () =>
      ask(managementKey, `/logs?size=25&page=1000&${ofDays(30)}`),
    'console: GET /logs/summary of 30 days by day': () =>
      ask(managementKey, `/logs/summary?interval=day&${ofDays(30)}`),
    'console: GET /logs/summary of reveals, 7 days by actor and hour': () =>
      ask(managementKey, `/logs/summary?interval=hour&group_by=actor&transform=reveal&${ofDays(7)}`),
    'console: GET /tenants/self/reports/usage?months=12': () =>
      ask(managementKey, '/tenants/self/reports/usage?months=12'),
    'console: GET /console/overview': () => ask(managementKey, '/console/overview'),
    'GET /logs?entity_type=token, page 1': () => ask(managementKey, '/logs?size=20&entity_type=token'),
  };
  const rows: string[] = [];
  for (const [name, run] of Object.entries(cases)) rows.push(`| ${name} | ${await timed(run)} |`);
  return rows;
}

const dataDir = await createDataDirectory();
try {
  const vault = await startStandaloneProcess({ dataDir, env: { VAULT_RATE_LIMIT_PER_MINUTE: '0' } });
  const { tenant_id: tenantId, management_key: managementKey } = vault.credentials;
  const table = await queries(await vault.databaseUrl(), tenantId);
  const head = ['| over HTTP, one caller | median ms | p99 ms |', '|---|---|---|'];
  const markdown = [
    '# Lists of a big tenant\n',
    table,
    ...head,
    ...(await overHttp(vault.url, managementKey)),
    '',
  ].join('\n');
  await vault.stop();
  mkdirSync(path.join(root, 'bench-results'), { recursive: true });
  writeFileSync(path.join(root, 'bench-results', 'lists.md'), markdown);
  process.stdout.write(markdown);
} finally {
  await removeDataDirectory(dataDir);
}
