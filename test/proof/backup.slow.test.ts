import { eventRegistry, systemActors, type LogEntry, type Token } from '@token-vault/contracts';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { projections } from '@token-vault/projectors';
import {
  cardNumber,
  cardToken,
  createDataDirectory,
  createTestPool,
  eventStoreDoubleOf,
  loadLog,
  printed,
  refusalOf,
  removeDataDirectory,
  resultOf,
  revealingApplication,
  runCommand,
  saveLog,
  spawnStandalone,
  startCommand,
  startStandaloneProcess,
  testStack,
  waitUntil,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { createHash, randomUUID } from 'node:crypto';
import { copyFile, cp, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

/** The state of a token as a client knows it, with the positions of the answers. */
interface Known {
  readonly id: string;
  readonly number: string;
  createdAt?: bigint;
  isDeleteTried: boolean;
  deletedAt?: bigint;
}

/** A log in EventStoreDB is copied by its server, before the backup of what is in Postgres. */
const isElsewhere = testStack.startsWith('eventstoredb');
/** `standalone/test/backup-eventstoredb.slow.test.ts` alters, cuts off and replaces a log that is elsewhere. */
const withLogInBackup = it.skipIf(isElsewhere);
const clients = 12;
const known: Known[] = [];
let source: string;
let place: string;
let backup: string;
let log: string;
let tombstones: string;
let position: bigint;
let lastTombstone: bigint;
let vault: StandaloneProcess;
let applicationKey: string;
const directories: string[] = [];

const positionOf = (headers: Headers) => BigInt(headers.get('svc-position') ?? '-1');

/** Creates tokens, and deletes every third one. */
async function live(client: Client, signal: AbortSignal): Promise<void> {
  for (let turn = 0; !signal.aborted; turn += 1) {
    const token: Known = { id: randomUUID(), number: cardNumber(), isDeleteTried: false };
    known.push(token);
    const body = cardToken(token.number, { id: token.id });
    token.createdAt = positionOf((await client.expect(201, 'POST', '/tokens', { body })).headers);
    if (turn % 3 === 0) await remove(client, token);
  }
}

async function remove(client: Client, token: Known): Promise<void> {
  token.isDeleteTried = true;
  token.deletedAt = positionOf((await client.expect(204, 'DELETE', `/tokens/${token.id}`)).headers);
}

const acknowledged = (more: number) => {
  const until = known.filter(({ createdAt }) => createdAt !== undefined).length + more;
  return waitUntil(() => known.filter(({ createdAt }) => createdAt !== undefined).length >= until, {
    timeoutMs: 120_000,
    what: 'answers to the load',
  });
};

/** An empty data directory with only the root key, as an operator prepares it. */
async function newDirectory(): Promise<string> {
  const directory = await createDataDirectory();
  directories.push(directory);
  await copyFile(path.join(source, 'root.key'), path.join(directory, 'root.key'));
  await loadLog(directory, log);
  return directory;
}

/** The position of the last event in a copy of the log. */
async function endOf(copy: string): Promise<bigint> {
  const directory = await createDataDirectory();
  directories.push(directory);
  await loadLog(directory, copy);
  const { connectionString } = await eventStoreDoubleOf(directory);
  const store = createEventStoreDbEventStore({ registry: eventRegistry, connectionString });
  return BigInt(await store.head().finally(() => store.close()));
}

beforeAll(async () => {
  [source, place] = [await createDataDirectory(), await createDataDirectory()];
  directories.push(source, place);
  backup = path.join(place, 'backup');
  log = path.join(place, 'log');
  tombstones = path.join(place, 'tombstones');
  vault = await startStandaloneProcess({ dataDir: source });
  const made = await vault
    .client()
    .expect<{ key: string }>(201, 'POST', '/applications', { body: revealingApplication() });
  applicationKey = made.body.key;
  const client = vault.client(applicationKey);
  const end = new AbortController();
  const lives = Promise.all(Array.from({ length: clients }, () => live(client, end.signal)));
  await acknowledged(200);
  await saveLog(source, log);
  const created = await resultOf(source, 'backup', 'create', backup);
  position = isElsewhere ? await endOf(log) : BigInt(printed(created, 'position'));
  await acknowledged(100);
  end.abort();
  await lives;
  // The tokens that the backup has and that the load has not deleted.
  const left = known.filter(({ createdAt = 0n, isDeleteTried }) => createdAt <= position && !isDeleteTried);
  for (const token of left.slice(0, 10)) await remove(client, token);
  await resultOf(source, 'backup', 'tombstones', tombstones);
  lastTombstone = known.reduce((last, { deletedAt = 0n }) => (deletedAt > last ? deletedAt : last), 0n);
  // Deleted after the tombstones were written, so the tombstones do not have these deletions.
  for (const token of left.slice(10, 13)) await remove(client, token);
  await vault.kill({ withPostgres: true });
});
afterAll(async () => {
  for (const directory of directories) await removeDataDirectory(directory);
});

const inBackup = ({ createdAt }: Known) => createdAt !== undefined && createdAt <= position;
const isDeletedBy = ({ deletedAt }: Known, at: bigint) => deletedAt !== undefined && deletedAt <= at;

/** Reads every token that a client asked for. Gives the ids that show their number, and those that are not found. */
async function readAll(client: Client): Promise<{ shown: Set<string>; absent: Set<string> }> {
  const [shown, absent] = [new Set<string>(), new Set<string>()];
  const queue = [...known];
  const reader = async () => {
    for (let token = queue.pop(); token; token = queue.pop()) {
      const answer = await client.request<Token>('GET', `/tokens/${token.id}`);
      if (answer.status === 404) absent.add(token.id);
      else if ((answer.body.data as { number?: string }).number === token.number) shown.add(token.id);
    }
  };
  await Promise.all(Array.from({ length: 8 }, reader));
  return { shown, absent };
}

const idsOf = (tokens: readonly Known[]) => tokens.map(({ id }) => id).sort();

async function entitiesWithKeys(running: StandaloneProcess): Promise<Set<string>> {
  const pool = createTestPool(await running.databaseUrl());
  try {
    const { rows } = await pool.query<{ entity: string }>('select entity from key_ring.data_key');
    return new Set(rows.map(({ entity }) => entity.replace(/^token:/, '')));
  } finally {
    await pool.end();
  }
}

describe('a backup that was taken under load, and restored with tombstones', () => {
  let restored: StandaloneProcess;
  let dataDir: string;
  let reading: Awaited<ReturnType<typeof readAll>>;
  beforeAll(async () => {
    dataDir = await newDirectory();
    await resultOf(dataDir, 'backup', 'restore', backup, '--tombstones', tombstones);
    restored = await startStandaloneProcess({ dataDir });
    reading = await readAll(restored.client(applicationKey));
  });

  it('was taken in the middle of the load', () => {
    expect(known.filter(inBackup).length).toBeGreaterThan(100);
    expect(known.filter((token) => !inBackup(token)).length).toBeGreaterThan(50);
    expect(known.filter((token) => inBackup(token) && isDeletedBy(token, position)).length).toBeGreaterThan(
      10,
    );
  });

  it('has all tokens that were acknowledged before it, and can open them', () => {
    const expected = known.filter((token) => inBackup(token) && !isDeletedBy(token, lastTombstone));
    expect([...reading.shown].sort()).toEqual(idsOf(expected));
  });

  it('has no other tokens', () => {
    const expected = known.filter((token) => !inBackup(token) || isDeletedBy(token, lastTombstone));
    expect([...reading.absent].sort()).toEqual(idsOf(expected));
  });

  it('has no key of tokens that were deleted before or after it', async () => {
    const entities = await entitiesWithKeys(restored);
    const deleted = known.filter((token) => inBackup(token) && isDeletedBy(token, lastTombstone));
    expect(deleted.filter(({ id }) => entities.has(id))).toEqual([]);
  });

  it('records in its log the entities that the restore has ended', async () => {
    const since = known.filter(
      (token) => inBackup(token) && isDeletedBy(token, lastTombstone) && !isDeletedBy(token, position),
    );
    expect(since.length).toBeGreaterThanOrEqual(10);
    for (const { id } of since.slice(0, 5)) {
      const { body } = await restored
        .client(vault.credentials.management_key)
        .expect<{ data: LogEntry[] }>(200, 'GET', `/logs?entity_id=${id}`);
      const deletions = body.data.filter(({ operation }) => operation === 'delete');
      expect(deletions).toMatchObject([{ actor_id: systemActors.restore, actor_type: 'system' }]);
    }
  });

  it('passes the verification of the audit log and of every read model', async () => {
    expect(await resultOf(dataDir, 'audit', 'verify')).toMatch(/the log is as it was signed/);
    for (const { name } of projections)
      expect(await resultOf(dataDir, 'projections', 'verify', name)).toMatch(/are what the log gives/);
  });

  it('serves requests', async () => {
    const client = restored.client(applicationKey);
    const { body } = await client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() });
    await client.expect(200, 'GET', `/tokens/${body.id}`);
    await restored.stop();
  });
});

describe('a backup that is restored without tombstones', () => {
  it('opens tokens that were deleted since, as the documentation warns', async () => {
    const dataDir = await newDirectory();
    await resultOf(dataDir, 'backup', 'restore', backup);
    const restored = await startStandaloneProcess({ dataDir });
    const { shown } = await readAll(restored.client(applicationKey));
    const revived = known.filter((token) => inBackup(token) && !isDeletedBy(token, position));
    // The copy of the log has the last of these, the key ring that was copied after it does not.
    const isBetween = ({ id, isDeleteTried }: Known) => isElsewhere && isDeleteTried && !shown.has(id);
    expect([...shown].sort()).toEqual(idsOf(revived.filter((token) => !isBetween(token))));
    expect(revived.filter(({ id, isDeleteTried }) => isDeleteTried && shown.has(id)).length).toBeGreaterThan(
      10,
    );
    await restored.stop();
  });
});

/** A copy of the backup with a changed text in one file and, on request, with all checksums corrected. */
async function tampered(
  name: string,
  kind: 'log' | 'keys',
  change: (text: string) => string,
  isSumRight: boolean,
): Promise<string> {
  const copy = path.join(place, randomUUID());
  await cp(backup, copy, { recursive: true });
  await cp(`${backup}.keys`, `${copy}.keys`, { recursive: true });
  const directory = kind === 'log' ? copy : `${copy}.keys`;
  const file = path.join(directory, `${name}.copy.gz`);
  const bytes = gzipSync(change(gunzipSync(await readFile(file)).toString()));
  await writeFile(file, bytes);
  if (!isSumRight) return copy;
  const sum = (content: Buffer | string) => createHash('sha256').update(content).digest('hex');
  const manifestFile = path.join(directory, 'manifest.json');
  const { sha256: _before, ...content } = JSON.parse(await readFile(manifestFile, 'utf8')) as {
    sha256: string;
    files: { name: string; sha256: string; bytes: number }[];
  };
  for (const entry of content.files)
    if (entry.name === name) Object.assign(entry, { sha256: sum(bytes), bytes: bytes.length });
  await writeFile(manifestFile, JSON.stringify({ ...content, sha256: sum(JSON.stringify(content)) }));
  return copy;
}

describe('a restore', () => {
  const refusal = async (...args: string[]) => {
    const dataDir = await newDirectory();
    const complaint = await refusalOf(dataDir, 'backup', 'restore', ...args);
    expect(await readdir(dataDir)).toEqual(['root.key']);
    return complaint;
  };
  const anotherActor = (text: string) =>
    text.replace(/"actor":\{"kind":"application"/, '"actor":{"kind":"session"');

  it('refuses a file that was altered', async () => {
    const [name, kind] = isElsewhere ? (['data-keys', 'keys'] as const) : (['events', 'log'] as const);
    expect(await refusal(await tampered(name, kind, (text) => text.slice(1), false))).toMatch(/checksum/);
  });

  withLogInBackup('refuses an altered event, also when its checksum was computed again', async () => {
    const copy = await tampered('events', 'log', anotherActor, true);
    expect(await refusal(copy)).toMatch(
      /the log of the backup was altered: 1 findings, .+ is not what was signed/,
    );
  });

  withLogInBackup('refuses a log that lacks its end', async () => {
    const shorter = (text: string) => text.replace(/[^\n]+\n$/, '');
    expect(await refusal(await tampered('events', 'log', shorter, true))).toMatch(/was altered/);
  });

  it('refuses a backup without its key ring, or with half of it', async () => {
    const copy = path.join(place, 'alone');
    await cp(backup, copy, { recursive: true });
    expect(await refusal(copy)).toMatch(/alone\.keys is not a backup/);
    const cut = (text: string) => text.slice(0, text.length / 2);
    expect(await refusal(await tampered('data-keys', 'keys', cut, true))).toMatch(/was altered/);
  });

  it('refuses tombstones that were cut off', async () => {
    const cut = path.join(place, 'cut');
    const whole = await readFile(tombstones);
    const lines = gunzipSync(whole).toString().split('\n');
    for (const bytes of [whole.subarray(0, -20), gzipSync(lines.slice(0, -3).join('\n'))]) {
      await writeFile(cut, bytes);
      expect(await refusal(backup, '--tombstones', cut)).toMatch(/was altered or cut off/);
    }
  });

  it('refuses a backup of a newer format and of a newer schema', async () => {
    const copy = path.join(place, 'newer');
    await cp(backup, copy, { recursive: true });
    const file = path.join(copy, 'manifest.json');
    const manifest = await readFile(file, 'utf8');
    await writeFile(file, manifest.replace('"format_version": 1', '"format_version": 2'));
    expect(await refusal(copy)).toMatch(/format 2, this release knows up to 1/);
    const { sha256: _before, ...content } = JSON.parse(manifest) as { sha256: string; schema: object };
    const newer = { ...content, schema: { ...content.schema, events: 99 } };
    const sha256 = createHash('sha256').update(JSON.stringify(newer)).digest('hex');
    await writeFile(file, JSON.stringify({ ...newer, sha256 }));
    expect(await refusal(copy)).toMatch(/schema "events" is at 99, this release knows up to/);
  });

  it('reports a missing root key before it loads anything', async () => {
    const dataDir = await createDataDirectory();
    directories.push(dataDir);
    await loadLog(dataDir, log);
    const { code, stderr } = await runCommand(dataDir, ['backup', 'restore', backup]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/root key file .*root\.key is missing/);
    expect(stderr).not.toContain('loading');
    expect(await readdir(dataDir)).toEqual([]);
  });

  it('refuses a directory that has a vault, and does not change it', async () => {
    expect(await refusalOf(source, 'backup', 'restore', backup)).toMatch(/is not empty/);
  });

  it('leaves no vault when it is killed, and works when it is repeated', async () => {
    const dataDir = await newDirectory();
    const command = startCommand(dataDir, ['backup', 'restore', backup]);
    await waitUntil(() => command.stderr().includes('loading'), {
      timeoutMs: 30_000,
      what: 'the beginning of the loading',
    });
    command.signal('SIGKILL');
    await command.ended;
    expect(await readdir(dataDir)).not.toContain('postgres');
    const start = spawnStandalone({ dataDir });
    expect(await start.exited).toMatchObject({ code: 1 });
    expect(start.errors()).toMatch(/^vault: a restore into .* is not complete: repeat it .*\n$/);
    await resultOf(dataDir, 'backup', 'restore', backup, '--no-keys');
    expect((await readdir(dataDir)).sort()).toEqual(['postgres', 'root.key']);
  });
});

describe('an interrupted backup', () => {
  it('never has the name of a complete one', async () => {
    const running = await startStandaloneProcess({ dataDir: source });
    const pool = createTestPool(await running.databaseUrl());
    const client = await pool.connect();
    const target = path.join(place, 'half');
    try {
      // One of the last parts. The other parts are written by then.
      await client.query('begin; lock table idempotency.answer in access exclusive mode');
      const command = startCommand(source, ['backup', 'create', target]);
      await waitUntil(
        async () =>
          (
            await pool.query(
              `select from pg_stat_activity where application_name = 'vault backup' and wait_event_type = 'Lock'`,
            )
          ).rowCount === 1,
        { timeoutMs: 60_000, what: 'the backup to wait for the lock' },
      );
      command.signal('SIGKILL');
      await command.ended;
    } finally {
      client.release(true);
      await pool.end();
    }
    const left = (await readdir(place)).filter((name) => name.startsWith('half'));
    expect(left).toHaveLength(2);
    for (const name of left) expect(name).toMatch(/unfinished-/);
    await resultOf(source, 'backup', 'create', target);
    await running.stop();
  });
});
