import {
  cardToken,
  createDataDirectory,
  createTestPool,
  plainApplication,
  removeDataDirectory,
  resultOf,
  runCommand,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let dataDir: string;
let vault: StandaloneProcess;
let pool: Pool;
let tokenId: string;
let file: string;
let publicKey: string;

const deleteToken = async () => {
  const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', {
    body: plainApplication({ name: 'deleting' }),
  });
  await vault.client(made.body.key).expect(204, 'DELETE', `/tokens/${tokenId}`);
};

beforeAll(async () => {
  dataDir = await createDataDirectory();
  file = path.join(dataDir, 'certificate.json');
  vault = await startStandaloneProcess({ dataDir });
  pool = createTestPool(await vault.databaseUrl());
  const body = plainApplication();
  const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body });
  const client = vault.client(made.body.key);
  tokenId = (await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() })).body.id;
});
afterAll(async () => {
  await pool.end();
  await removeDataDirectory(dataDir);
});

const refusalOf = async (...args: string[]) => {
  const { code, stdout, stderr } = await runCommand(dataDir, ['erasure', ...args]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^[^\n]+\n$/);
  return stderr;
};

it('a token that exists, or never existed, has no certificate', async () => {
  expect(await refusalOf('certificate', tokenId)).toMatch(/^vault: token \S+ is not erased: it is there$/m);
  expect(await refusalOf('certificate', 'no-such')).toMatch(
    /^vault: no tenant has ever had a token no-such$/m,
  );
});

it('an erased token has one, unless its key was put back', async () => {
  await pool.query('create table kept as select * from key_ring.data_key');
  await deleteToken();
  const text = await resultOf(dataDir, 'erasure', 'certificate', tokenId);
  const certificate = JSON.parse(text) as { public_key: string; destroyed_keys: unknown[] };
  expect(certificate).toMatchObject({ token_id: tokenId, erased_by: { type: 'TokenDeleted' } });
  expect(certificate.destroyed_keys).toHaveLength(2);
  await writeFile(file, text);
  publicKey = certificate.public_key;
  await pool.query('insert into key_ring.data_key select * from kept on conflict do nothing');
  expect(await refusalOf('certificate', tokenId)).toMatch(
    /is not yet erased: 2 of its data keys are still there/,
  );
});

it('a certificate is verified without a vault, by a public key', async () => {
  await vault.stop();
  const nowhere = path.join(dataDir, 'no-vault-here');
  const verified = await resultOf(nowhere, 'erasure', 'verify', file, '--public-key', publicKey);
  expect(verified).toMatch(
    /^token \S+ of tenant \S+ was erased by TokenDeleted \S+ at position \d+, .+; its 2 data keys were gone/,
  );
  const other = publicKey.startsWith('A') ? `B${publicKey.slice(1)}` : `A${publicKey.slice(1)}`;
  expect(await refusalOf('verify', file, '--public-key', other)).toContain(
    'is not a certificate of erasure signed by this key',
  );
  expect(await refusalOf('verify', path.join(dataDir, 'absent'), '--public-key', publicKey)).toContain(
    'ENOENT',
  );
});
