import {
  cardNumber,
  cardToken,
  createDataDirectory,
  eventStoreDoubleOf,
  hasDouble,
  lackOfDouble,
  plainApplication,
  printed,
  removeDataDirectory,
  runCommand,
  spawnVault,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import { copyFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';

// A stack of nine processes, and commands beside it.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const number = cardNumber();
let dataDir: string;
let vault: StandaloneProcess;
let environment: Record<string, string>;
let tokenId: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const env = { VAULT_STACK_REPLICAS: '1' };
  vault = await startStandaloneProcess({ dataDir, stack: 'eventstoredb', env });
  environment = { EVENT_STORE: 'eventstoredb', EVENTSTOREDB_URL: vault.eventStoreUrl ?? '' };
  const body = plainApplication();
  const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body });
  const client = vault.client(made.body.key);
  tokenId = (await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken(number) })).body
    .id;
  await client.expect(204, 'DELETE', `/tokens/${tokenId}`);
  await done('audit', 'seal');
});
afterAll(async () => {
  await vault.stop();
  await removeDataDirectory(dataDir);
});

const run = (...args: string[]) => runCommand(dataDir, args, environment);

/** The output of a command that succeeds. */
async function done(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...args);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

/** The progress of work that has counted its events. A position would be thousands of bytes, `of` its end. */
const countedOf = (label: string) => new RegExp(`^${label} .* 100 %  \\d{1,3} events`, 'm');

describe('the command line of a vault whose log is in EventStoreDB', () => {
  it('verifies the log and the read models, and counts events, not bytes', async () => {
    const { stdout, stderr } = await run('audit', 'verify');
    const [, events] = /^the log is as it was signed: (\d+) events after 0/m.exec(stdout) ?? [];
    expect(stderr).toMatch(new RegExp(`^verify events .* 100 %  ${events} events`, 'm'));
    expect(stderr).toMatch(countedOf('verify tokens'));
    expect(await done('projections', 'verify', 'tokens')).toMatch(
      /^tokens: \d+ rows in 6 tables are what the log gives/m,
    );
    expect(await done('projections', 'status')).toMatch(/^tokens\s/m);
  });

  it('exports the log without plaintext', async () => {
    const lines = await done('audit', 'export', '--tenant', vault.credentials.tenant_id);
    const types = lines.trim().split('\n').map((line) => (JSON.parse(line) as { type: string }).type); // prettier-ignore
    expect(types).toEqual(expect.arrayContaining(['TenantCreated', 'TokenDeleted', 'AuditCheckpointSigned']));
    expect(lines).not.toContain(number);
  });

  it('certifies an erasure, and verifies the certificate', async () => {
    const text = await done('erasure', 'certificate', tokenId);
    const { public_key: publicKey } = JSON.parse(text) as { public_key: string };
    const file = path.join(dataDir, 'certificate.json');
    await writeFile(file, text);
    expect(await done('erasure', 'verify', file, '--public-key', publicKey)).toContain('was erased by');
  });

  it('rebuilds a read model, and counts events, not bytes', async () => {
    const { code, stderr } = await run('projections', 'rebuild', 'tokens');
    expect([code, stderr]).toEqual([0, expect.stringMatching(countedOf('rebuild tokens'))]);
    expect(await done('projections', 'verify', 'tokens')).toMatch(
      /^tokens: \d+ rows in 6 tables are what the log gives/m,
    );
  });

  it('makes tenants and rotates keys', async () => {
    const created = await done('tenants', 'create', 'Another');
    expect(printed(created, 'management key')).toMatch(/^key_mgt_/);
    expect(await done('keys', 'rotate-tenant', vault.credentials.tenant_id)).not.toBe('');
  });
});

describe('a vault with another prefix on the same server', () => {
  let otherDirectory: string;
  let other: StandaloneProcess;
  beforeAll(async () => {
    if (hasDouble) await (await eventStoreDoubleOf(dataDir)).tell('foreign 1200');
    otherDirectory = await createDataDirectory();
    const env = { ...environment, EVENTSTOREDB_STREAM_PREFIX: 'other.', VAULT_STACK_REPLICAS: '1' };
    other = await startStandaloneProcess({ dataDir: otherDirectory, stack: 'processes', env });
  });
  afterAll(async () => {
    await other.stop();
    await removeDataDirectory(otherDirectory);
  });

  it('makes its own first tenant', () => {
    expect(other.credentials.tenant_id).not.toBe(vault.credentials.tenant_id);
  });

  it.each([
    ['first', () => vault],
    ['second', () => other],
  ])('leaves both their tokens and read models: the %s', async (_which, of) => {
    const manager = of().client();
    const body = plainApplication();
    const made = await manager.expect<{ key: string }>(201, 'POST', '/applications', { body });
    const client = of().client(made.body.key);
    const created = await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() });
    expect(created.headers.has('svc-consistency')).toBe(false);
    await client.expect(200, 'GET', `/tokens/${created.body.id}`);
    const listed = await client.expect<{ data: { id: string }[] }>(200, 'GET', '/tokens');
    expect(listed.body.data.map(({ id }) => id)).toEqual([created.body.id]);
    const log = { EVENTSTOREDB_STREAM_PREFIX: of() === other ? 'other.' : 'vault.' };
    const verified = await runCommand(of().dataDir, ['audit', 'verify'], { ...environment, ...log });
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('is as it was signed')]);
  });
});

describe('a backup by command of a vault whose log is in EventStoreDB', () => {
  it('has the key ring only, and gives a working vault beside the log', async () => {
    // Nothing may be written after the backup: the log would be newer than the key ring.
    await vault.stop();
    const place = path.join(dataDir, 'backup');
    const created = await done('backup', 'create', place);
    expect(await readdir(place)).not.toContain('events.copy.gz');
    expect(await done('backup', 'tombstones', path.join(dataDir, 'tombstones'))).toContain(
      `position: ${printed(created, 'position')}`,
    );
    const restored = await createDataDirectory();
    onTestFinished(() => removeDataDirectory(restored));
    await copyFile(path.join(dataDir, 'root.key'), path.join(restored, 'root.key'));
    const restore = await runCommand(
      restored,
      ['backup', 'restore', place, '--tombstones', path.join(dataDir, 'tombstones')],
      environment,
    );
    expect([restore.code, restore.stdout]).toEqual([0, expect.stringMatching(/^audit: .*, 0 findings$/m)]);
    expect(restore.stdout).toContain('ended by the log: 0');
    expect((await runCommand(restored, ['audit', 'verify'], environment)).stdout).toMatch(
      /^the log is as it was signed/m,
    );
  });
});

it('a wrong root key is reported in one line by the stack, not by each of its processes', async () => {
  const env = { VAULT_ROOT_KEY: randomBytes(32).toString('base64') };
  const refused = await spawnVault({ dataDir, stack: 'eventstoredb', env });
  expect(await refused.exited).toMatchObject({ code: 1 });
  expect(refused.errors()).toMatch(/^vault: wrong root key: .+\n$/);
});

// The last test, because it leaves the log altered. No server alters an event when it is told to.
describe('an event altered in EventStoreDB', () => {
  it.skipIf(!hasDouble)(`is named by the verification${lackOfDouble}`, async () => {
    const double = await eventStoreDoubleOf(dataDir);
    await double.tell('alter ApplicationCreated backend Backend');
    const found = await run('audit', 'verify', '--no-rows');
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(
      new RegExp(
        `^position \\d+, tenant ${vault.credentials.tenant_id}: ApplicationCreated of \\S+, revision 0, is not what was signed$`,
        'm',
      ),
    );
    expect(found.stderr).toMatch(/^vault: the log was altered: 1 findings in .+\n$/m);
  });
});
