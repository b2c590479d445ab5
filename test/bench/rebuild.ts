// `npm run bench:rebuild [-- events]`: how fast read models are made from the log, and the log is verified and exported;
// 1,000,000 events by default. On a Postgres of its own with the settings of the standalone vault, fsync on.
import { eventRegistry } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, type TenantHashes } from '@token-vault/crypto';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { schema } from '@token-vault/processes';
import { sealLog } from '@token-vault/audit';
import { migrate } from '@token-vault/processes/migrations';
import { projections, startProjectors } from '@token-vault/projectors';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import { startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import { superuserUrl, waitUntil } from '@token-vault/test-support';
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import flags from '../../scripts/node-flags.json' with { type: 'json' };
import type { Measurement, Work } from './replay-work.ts';
import { seedLog } from './seed-log.ts';
import { root, temporaryDirectory } from './server.ts';

const [events = 1_000_000, ...chosen] = process.argv
  .slice(2)
  .map((text) => (/^\d+$/.test(text) ? Number(text) : text));
const execute = promisify(execFile);
const rootKey = randomBytes(32).toString('hex');
const directory = temporaryDirectory();
const postgresDirectory = path.join(directory.path, 'postgres');
const tenantIds = Array.from({ length: 4 }, () => randomUUID());
const note = (text: string): void => void process.stderr.write(`${text}\n`);

/** The tables of a vault whose read models are at the beginning of a full log. */
async function prepare(url: string): Promise<void> {
  await migrate(url, schema);
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const store = createPostgresEventStore({ registry: eventRegistry, connection: { connectionString: url } });
  const keyRing = await createKeyRing({
    pool,
    rootKey: environmentRootKey(rootKey),
    clock: systemClock,
    durability: 'own',
  });
  const signers = new Map<string, TenantHashes>();
  for (const tenantId of tenantIds) {
    await keyRing.createTenantKeys(tenantId);
    signers.set(tenantId, await keyRing.hashes(tenantId));
  }
  const projectors = startProjectors({ store, connectionString: url });
  await waitUntil(async () => (await projectors.status()).length === projections.length);
  await projectors.close();
  await seedLog(pool, signers, Number(events));
  note(`${events} events in the log`);
  const signed = await sealLog({ store, keyRing, clock: systemClock, logger: silentLogger });
  note(`${signed} checkpoints signed`);
  await store.close();
  await pool.end();
}

async function measure(work: Work): Promise<Measurement> {
  const script = path.join(import.meta.dirname, 'replay.ts');
  const { stdout } = await execute(process.execPath, [...flags, script, JSON.stringify(work)], { cwd: root });
  return JSON.parse(stdout) as Measurement;
}

async function row(name: string, work: Work): Promise<string> {
  const found = await measure(work);
  const { seconds, cpuSeconds, earlyMemoryMb, peakMemoryMb } = found;
  const cells = [
    name,
    Math.round(found.events / seconds).toLocaleString('en'),
    seconds.toFixed(1),
    cpuSeconds.toFixed(1),
    earlyMemoryMb.toFixed(0),
    peakMemoryMb.toFixed(0),
  ];
  const line = `| ${cells.join(' | ')} |`;
  note(line);
  return line;
}

async function bench(url: string): Promise<string> {
  await prepare(url);
  await checkpoint();
  const rows: string[] = [];
  for (const { name } of projections) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    rows.push(await row(`rebuild ${name}`, { kind: 'rebuild', projection: name, url }));
  }
  if (chosen.length === 0) {
    rows.push(await row('verify tokens', { kind: 'verify', projection: 'tokens', url }));
    rows.push(await row('audit verify', { kind: 'audit verify', rootKey, url }));
    rows.push(
      await row('audit export, one tenant of four', {
        kind: 'audit export',
        tenantId: tenantIds[0] ?? '',
        url,
      }),
    );
  }
  return [
    `# Replaying ${Number(events).toLocaleString('en')} events, ${cpus().length} cores, Node ${process.version}`,
    '',
    'Each in a process of its own, beside Postgres with fsync on. Of 1,000 commands 400 create tokens, 430 read one, 10 list 20,',
    '80 delete, 60 change, 10 are refused, 10 create in a transaction. Memory is the peak of the process, after a fifth of the log',
    'and at the end.',
    '',
    '| work | events/s | s | CPU s | MB after a fifth | MB at the end |',
    '| :-- | --: | --: | --: | --: | --: |',
    ...rows,
    '',
  ].join('\n');
}

/** So that no measurement writes the pages of the seeded log. The role of the vault may not do it. */
async function checkpoint(): Promise<void> {
  const client = new pg.Client(await superuserUrl(postgresDirectory));
  await client.connect();
  await client.query('checkpoint').finally(() => client.end());
}

try {
  const postgres = await startEmbeddedPostgres({ dataDir: postgresDirectory });
  try {
    const markdown = await bench(postgres.url);
    if (chosen.length === 0) {
      mkdirSync(path.join(root, 'bench-results'), { recursive: true });
      writeFileSync(path.join(root, 'bench-results', 'rebuild.md'), markdown);
    }
    process.stdout.write(markdown);
  } finally {
    await postgres.stop();
  }
} finally {
  directory.remove();
}
