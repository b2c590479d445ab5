import {
  createDataDirectory,
  refusalOf,
  removeDataDirectory,
  resultOf,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useDestination } from '../world/receivers.ts';
import { checkByPython, hasPython } from './python.ts';
import { createReader, howToDirectory, readHowTo, type Reader } from './reader.ts';
import { consoleScriptOf } from './shell-blocks.ts';

/** The files of the checkout. npm and the compiler keep hidden ones in it. */
const visibleFiles = async (): Promise<string[]> =>
  (await readdir(path.resolve(howToDirectory, '../..'))).filter((name) => !name.startsWith('.')).sort();

describe('a reader with a running vault who follows the page', () => {
  let dataDir: string;
  let vault: StandaloneProcess;
  let reader: Reader;
  let before: string[];
  const destination = useDestination();

  beforeAll(async () => {
    before = await visibleFiles();
    dataDir = await createDataDirectory();
    const env = { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile };
    vault = await startStandaloneProcess({ dataDir, env });
    reader = await createReader();
  });
  afterAll(async () => {
    await reader.leave();
    await removeDataDirectory(dataDir);
  });

  /** The environment holds only the variables that the pages tell the reader to set. */
  const follow = async (page: string, environment: Readonly<Record<string, string>> = {}) => {
    const followed = await reader.follow(page, {
      VAULT_DATA_DIR: dataDir,
      VAULT_URL: vault.url,
      ...environment,
    });
    const { code, stderr } = followed;
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    return followed;
  };

  it('tenants-and-applications has a tenant whose application works at once', async () => {
    const { stdout, variable } = await follow('tenants-and-applications');
    expect(stdout).toContain('"data":"XXXXXXXXXXXX4242"');
    const tenants = await resultOf(dataDir, 'tenants', 'list', '--json');
    const made = tenants.split('\n').find((line) => line.includes(variable('ACME')));
    expect(JSON.parse(made ?? '{}')).toMatchObject({ name: 'Acme', plan: 'standard' });
    const { body } = await vault.client(variable('ACME_KEY')).expect(200, 'GET', '/applications/key');
    expect(body).toMatchObject({ name: 'backend', tenant_id: variable('ACME') });
  });

  it('send-a-card-to-a-provider has a list of destinations, a refusal of all others in the log, and requests that bring the card', async () => {
    const { stdout, variable } = await follow('send-a-card-to-a-provider');
    expect(stdout).toContain('"proxy_destinations":"https://api.example.com https://*.example.org"');
    expect(stdout).toContain('"message":"Proxy access denied"');
    expect(stdout).toContain('"destination":"https://api.example.com/v1"');

    // With this destination in place of the provider, the requests of the page bring it the card.
    const settings = { proxy_destinations: destination.url };
    await vault.client().expect(200, 'PUT', '/tenants/self', { body: { name: 'First tenant', settings } });
    const moved = { body: { destination: `${destination.url}/v1` } };
    await vault.client().expect(204, 'PATCH', `/proxies/${variable('PROVIDER')}`, moved);
    const names = ['PAYMENTS_KEY', 'CARD', 'PROVIDER'];
    const given = Object.fromEntries(names.map((name) => [name, variable(name)]));
    const page = await readHowTo('send-a-card-to-a-provider');
    const script = consoleScriptOf(page).replaceAll('https://api.example.com', destination.url);
    const env = { PATH: process.env.PATH, VAULT_URL: vault.url, ...given };
    await promisify(execFile)('bash', ['-c', script], { env });
    const [byUrl, configured] = destination.arrived.map(({ url, headers, body }) => [
      url,
      headers.authorization,
      JSON.parse(body.toString()) as unknown,
    ]);
    const [number, signIn] = ['4242424242424242', 'Bearer <key of the provider>'];
    expect(byUrl).toEqual(['/v1/charges', signIn, { amount: 1000, number, month: 12 }]);
    expect(configured).toEqual(['/v1/charges', signIn, { amount: 1000, number }]);
  });

  it('many-tokens makes, shows and deletes tokens, and names what failed', async () => {
    const { stdout } = await follow('many-tokens');
    expect(stdout).toContain('"status":201');
    expect(stdout).toContain('"errors":{"data":');
    expect(stdout).toContain('["Ada","XXXXXXXXXXXX4242"],["Bob",null]');
    expect(stdout).toContain('"not_opened":[{"id":"customer-2","reason":"not-found"}]');
    expect(stdout).toContain('{"id":"customer-1","status":204}');
  });

  it('certify-an-erasure has a certificate that the public key of the tenant verifies', async () => {
    const { stdout, variable } = await follow('certify-an-erasure');
    const file = path.join(variable('SAFE'), 'certificate.json');
    const certificate: unknown = JSON.parse(await readFile(file, 'utf8'));
    expect(certificate).toMatchObject({
      token_id: variable('CARD'),
      erased_by: { type: 'TokenDeleted' },
      destroyed_keys: [{ sealed: ['data'] }, { sealed: ['cvc'] }],
      public_key: variable('PUBLIC_KEY'),
    });
    expect(stdout).toMatch(new RegExp(`^token ${variable('CARD')} of tenant \\S+ was erased by`, 'm'));
  });

  it('export-and-import has the card in both tenants, until one of them deletes it', async () => {
    const { stdout, variable } = await follow('export-and-import');
    expect(stdout).toContain('5555555555554444');
    const card = `/tokens/${variable('CARD')}`;
    await vault.client(variable('KEY')).expect(404, 'GET', card);
    await vault.client(variable('RECEIVER_KEY')).expect(200, 'GET', card);
    const asked = await refusalOf(dataDir, 'erasure', 'certificate', variable('CARD'));
    const tenants = [variable('TENANT'), variable('RECEIVER')].sort().join(', ');
    expect(asked).toBe(
      `vault: 2 tenants have had a token ${variable('CARD')}: say which with --tenant: ${tenants}`,
    );
    const left = await readdir(variable('SAFE'));
    expect(left).toContain('recipient.pub');
    expect(left).not.toContain('recipient');
    expect(left).not.toContain('tokens.age');
  });

  it('rebuild-projections gets 503 while tokens are paused, and reads all that was written after resume', async () => {
    const { stdout, variable } = await follow('rebuild-projections');
    expect(stdout).toContain('tokens: rebuilt');
    expect(stdout).toContain('one token: 503, a list: 503');
    expect(stdout).toContain('SVC-CONSISTENCY: pending');
    const client = vault.client(variable('KEY'));
    for (const id of [variable('CARD'), variable('WRITTEN')])
      await client.expect(200, 'GET', `/tokens/${id}`);
  });

  describe('verify-the-audit-log', () => {
    let file: string;
    let tenant: string;
    let publicKey: string;

    beforeAll(async () => {
      const { stdout, variable } = await follow('verify-the-audit-log');
      expect(stdout).toContain('the log is as it was signed');
      [file, tenant, publicKey] = [
        path.join(variable('SAFE'), 'log.jsonl'),
        variable('TENANT'),
        variable('PUBLIC_KEY'),
      ];
    });

    const check = (text: string, key = publicKey) => checkByPython(text, tenant, key);

    it('has an export, whose lines hold positions as strings and checkpoints without a hash', async () => {
      const lines = (await readFile(file, 'utf8')).trim().split('\n');
      const events = lines.map(
        (line) => JSON.parse(line) as { type: string; position: unknown; hash: string },
      );
      expect(new Set(events.map(({ position }) => typeof position))).toEqual(new Set(['string']));
      const checkpoints = events.filter(({ type }) => type === 'AuditCheckpointSigned');
      expect(checkpoints.length).toBeGreaterThan(0);
      expect(new Set(checkpoints.map(({ hash }) => hash))).toEqual(new Set(['']));
    });

    describe.skipIf(!hasPython)(
      'the script of the page in Python (skipped where there is no python3)',
      () => {
        it('accepts the signed export', async () => {
          const done = await check(await readFile(file, 'utf8'));
          expect(done).toMatchObject({ code: 0, stderr: '' });
          expect(done.stdout).toMatch(/^\d+ events, [1-9]\d* checkpoints, \d+ events are not signed yet\n$/);
        });

        it.each<[string, (lines: string[]) => string[], RegExp]>([
          [
            'an event that was altered',
            (lines) => lines.map((line) => line.replace('how-to', 'how-tp')),
            /is not its hash/,
          ],
          [
            'an event that was taken out',
            (lines) => lines.slice(1),
            /the events before it are not those that were signed/,
          ],
          ['a checkpoint that was altered', forgeCount, /it is not signed by this key/],
          [
            'a checkpoint whose time was altered',
            (lines) =>
              lines.map((line) =>
                isCheckpoint(line) ? line.replace('occurred_at\\":\\"20', 'occurred_at\\":\\"19') : line,
              ),
            /it is not signed by this key/,
          ],
          [
            'an export without checkpoints',
            (lines) => lines.filter((line) => !isCheckpoint(line)),
            /there is no checkpoint/,
          ],
        ])('finds %s', async (_name, alter, complaint) => {
          const lines = (await readFile(file, 'utf8')).trim().split('\n');
          const { code, stderr } = await check(`${alter(lines).join('\n')}\n`);
          expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(complaint) as string });
        });

        it('detects that another key has signed', async () => {
          const other = (publicKey.startsWith('A') ? 'B' : 'A') + publicKey.slice(1);
          expect(await check(await readFile(file, 'utf8'), other)).toMatchObject({ code: 1 });
        });
      },
    );
  });

  it('back-up-and-restore has a second vault with the existing tokens, and without the deleted ones', async () => {
    // Only the port is chosen here, because other vaults run on this machine.
    const { stdout } = await follow('back-up-and-restore', { RESTORED_PORT: '0' });
    expect(stdout).toContain('keys left out: 1');
    expect(stdout).toMatch(/^4242424242424242 404$/m);
    expect(await readdir(path.join(reader.home, 'restored-vault'))).toContain('root.key');
  });

  it('export-and-import and the others leave nothing in the checkout, neither keys nor tokens', async () => {
    expect(await visibleFiles()).toEqual(before);
  });
});

const isCheckpoint = (line: string): boolean => line.includes('"type":"AuditCheckpointSigned"');

/** An attacker who removes an event must lower the count. */
const forgeCount = (lines: string[]): string[] =>
  lines.map((line) =>
    isCheckpoint(line)
      ? line.replace(/\\"count\\": ?(\d+)/, (_all, count) => `\\"count\\":${Number(count) - 1}`)
      : line,
  );
