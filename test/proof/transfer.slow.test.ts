import { systemActors, type LogEntry, type Pagination, type Token } from '@token-vault/contracts';
import {
  cardToken,
  createDataDirectory,
  plainApplication,
  refusalOf,
  removeDataDirectory,
  resultOf,
  revealingApplication,
  runCommand,
  startStandaloneProcess,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 });

interface Application {
  readonly id: string;
  readonly key: string;
}

interface Side {
  readonly vault: StandaloneProcess;
  readonly dataDir: string;
  readonly tenantId: string;
  /** Sees plaintext everywhere. */
  readonly all: Application;
  readonly client: Client;
}

let place: string;
let from: Side;
let to: Side;
/** Sees plaintext in `/pci/` only. */
let cards: Application;
let masking: Application;
let exportId: string;

const file = (name: string) => path.join(place, name);
const secretText = 'a text that must not be in the file';

async function open(): Promise<Side> {
  const dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir });
  const body = revealingApplication();
  const all = (await vault.client().expect<Application>(201, 'POST', '/applications', { body })).body;
  return { vault, dataDir, tenantId: vault.credentials.tenant_id, all, client: vault.client(all.key) };
}

beforeAll(async () => {
  place = await createDataDirectory();
  [from, to] = [await open(), await open()];
  const make = async (body: object) =>
    (await from.vault.client().expect<Application>(201, 'POST', '/applications', { body })).body;
  cards = await make(revealingApplication('/pci/'));
  masking = await make(plainApplication());
  for (const body of [
    cardToken('4242424242424242', { id: 'card-1', metadata: { customer: 'c-1' } }),
    cardToken('4242424242424242', { id: 'card-2', search_indexes: ['{{ data.number }}'] }),
    {
      id: 'text-1',
      type: 'token',
      data: { text: secretText, deep: [1, null, { a: 'ü\u2028' }] },
      expires_at: '2040-01-01T05:30:00+05:30',
    },
    { id: 'text-2', type: 'token', data: 'x'.repeat(200_000), mask: '{{ data | slice: 0, 2 }}' },
    { id: 'gone', type: 'token', data: 'deleted before' },
  ])
    await from.client.expect(201, 'POST', '/tokens', { body });
  await from.client.expect(204, 'DELETE', '/tokens/gone');
  // From now on callers that see masks see nothing of this token.
  await from.client.expect(200, 'PATCH', '/tokens/card-2', { body: { mask: null } });
  for (const name of ['recipient', 'other']) await resultOf(place, 'transfer', 'keygen', file(name));
});
afterAll(async () => {
  for (const directory of [from.dataDir, to.dataDir, place]) await removeDataDirectory(directory);
});

const exporting = (application: string, target: string) => [
  'export',
  from.tenantId,
  '--recipient',
  file('recipient.pub'),
  '--application',
  application,
  '--to',
  file(target),
];
const importing = (source: string, identity = 'recipient') => [
  'import',
  to.tenantId,
  file(source),
  '--identity',
  file(identity),
];

const entriesOf = async ({ vault }: Side, id: string, operation: string) => {
  const { body } = await vault
    .client()
    .expect<{ data: LogEntry[] }>(200, 'GET', `/logs?entity_id=${encodeURIComponent(id)}&size=100`);
  return body.data.filter((entry) => entry.operation === operation);
};

const totalAt = async (side: Side): Promise<number> =>
  (await side.client.expect<{ pagination: Pagination }>(200, 'GET', '/tokens')).body.pagination.total_items;

describe('a key pair', () => {
  it('has a secret key that only its owner can read, and is never overwritten', async () => {
    expect(await readFile(file('recipient'), 'utf8')).toMatch(/^AGE-SECRET-KEY-1[\dA-Z]+$/m);
    expect(await readFile(file('recipient.pub'), 'utf8')).toMatch(/^age1[\da-z]+\n$/);
    expect(await refusalOf(place, 'transfer', 'keygen', file('recipient'))).toMatch(/exists already/);
  });
});

describe('an export', () => {
  it('has all that the application reveals, sealed, and each token of it is in the log', async () => {
    const output = await resultOf(from.dataDir, ...exporting(from.all.id, 'whole'));
    expect(output).toMatch(/^tokens: 4\nleft out: 0$/m);
    exportId = /^export: (\S+)$/m.exec(output)?.[1] ?? '';
    expect((await readFile(file('whole'))).includes(secretText)).toBe(false);
    for (const id of ['card-1', 'card-2', 'text-1', 'text-2']) {
      const exported = await entriesOf(from, id, 'export');
      expect(exported).toMatchObject([{ actor_id: from.all.id, message: 'Token exported' }]);
    }
  });

  it('leaves out tokens that no rule reveals, counts them, and does not record them as exported', async () => {
    const output = await resultOf(from.dataDir, ...exporting(cards.key, 'cards'));
    expect(output).toMatch(/^tokens: 2\nleft out: 2$/m);
    expect(await entriesOf(from, 'text-1', 'export')).toHaveLength(1);
    expect(await entriesOf(from, 'card-1', 'export')).toHaveLength(2);
  });

  it('is refused to an application that sees masks, which is in the log, and writes nothing', async () => {
    expect(await refusalOf(from.dataDir, ...exporting(masking.id, 'masked'))).toMatch(/No rule .+ reveals/);
    expect(await readdir(place)).not.toContain('masked');
    const { body } = await from.vault
      .client()
      .expect<{ data: LogEntry[] }>(200, 'GET', '/logs?entity_type=token&size=100');
    const denied = body.data.filter(({ operation }) => operation === 'denied');
    expect(denied).toMatchObject([{ actor_id: masking.id }]);
  });

  it('is refused to an application of another tenant, and to an unknown key', async () => {
    expect(await refusalOf(from.dataDir, ...exporting(to.all.key, 'foreign'))).toMatch(/no such application/);
    expect(await refusalOf(from.dataDir, ...exporting(to.all.id, 'foreign'))).toMatch(/no such application/);
  });

  it('is refused for a file without a public key, and the error does not quote the file', async () => {
    const [head, tenant, flag, , ...rest] = exporting(from.all.id, 'wrong');
    const wrong = [head, tenant, flag, file('recipient'), ...rest].map(String);
    const complaint = await refusalOf(from.dataDir, ...wrong);
    expect(complaint).toMatch(/is not a file of public keys/);
    expect(complaint).not.toMatch(/AGE-SECRET/);
  });
});

/**
 * The length at which an age file can be cut so that all remaining chunks are complete: the header, a nonce, and
 * chunks with tags.
 */
function afterTwoChunks(sealed: Buffer): number {
  const header = sealed.indexOf('\n', sealed.indexOf('\n--- ') + 1) + 1;
  return header + 16 + 2 * (64 * 1024 + 16);
}

describe('an import', () => {
  it('refuses a file that was cut off, altered, or sealed to another key, and creates nothing', async () => {
    const whole = await readFile(file('whole'));
    await writeFile(file('cut'), whole);
    await truncate(file('cut'), afterTwoChunks(whole));
    expect(await refusalOf(to.dataDir, ...importing('cut'))).toMatch(/was altered or cut off/);
    const altered = Buffer.from(whole);
    altered.writeUInt8(altered.readUInt8(altered.length - 100) ^ 1, altered.length - 100);
    await writeFile(file('altered'), altered);
    expect(await refusalOf(to.dataDir, ...importing('altered'))).toMatch(/was altered or cut off/);
    expect(await refusalOf(to.dataDir, ...importing('whole', 'other'))).toMatch(/sealed to another key/);
    expect(await totalAt(to)).toBe(0);
  });

  it('makes the same tokens under the same ids', async () => {
    expect(await resultOf(to.dataDir, ...importing('whole'))).toMatch(/^imported: 4\nalready there: 0$/m);
    expect(await totalAt(to)).toBe(4);
    const kept = ({ id, type, data, mask, containers, metadata, search_indexes, expires_at }: Token) => {
      const { cvc: _cvc, ...lasting } = data as { cvc?: string };
      return {
        id,
        type,
        data: typeof data === 'object' ? lasting : data,
        mask,
        containers,
        metadata,
        search_indexes,
        expires_at,
      };
    };
    for (const id of ['card-1', 'card-2', 'text-1', 'text-2']) {
      const before = await from.client.expect<Token>(200, 'GET', `/tokens/${id}`);
      const after = await to.client.expect<Token>(200, 'GET', `/tokens/${id}`);
      expect(kept(after.body)).toEqual(kept(before.body));
      expect(await entriesOf(to, id, 'create')).toMatchObject([
        { actor_id: systemActors.import, actor_type: 'system', request: 'import' },
      ]);
    }
    const card = await to.client.expect<Token>(200, 'GET', '/tokens/card-1');
    expect(card.body.data).not.toHaveProperty('cvc');
    const found = await to.client.expect<{ data: Token[] }>(200, 'POST', '/tokens/search', {
      body: { query: 'data:4242424242424242' },
    });
    expect(found.body.data.map(({ id }) => id)).toEqual(['card-2']);
  });

  it('changes nothing when it is repeated, and does not bring deleted tokens back', async () => {
    await to.client.expect(204, 'DELETE', '/tokens/text-2');
    expect(await resultOf(to.dataDir, ...importing('whole'))).toMatch(/^imported: 0\nalready there: 4$/m);
    await to.client.expect(404, 'GET', '/tokens/text-2');
  });

  it('does not bring a token back that its tenant deleted after the export, and names it', async () => {
    await from.client.expect(204, 'DELETE', '/tokens/card-1');
    const args = ['import', from.tenantId, file('whole'), '--identity', file('recipient')];
    for (let run = 0; run < 2; run += 1) {
      const { code, stdout, stderr } = await runCommand(from.dataDir, args);
      expect({ code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/4 tokens were not imported/) as string,
      });
      expect(stdout).toMatch(/^refused: card-1: The token with this id was deleted or has expired here\.$/m);
      expect(stdout).toMatch(/^refused: card-2: The token id is taken\.$/m);
      expect(stdout).toMatch(/^imported: 0\nalready there: 0$/m);
    }
    await from.client.expect(404, 'GET', '/tokens/card-1');
    await from.vault.client().expect(200, 'GET', '/tokens/card-1/erasure-certificate');
    const body = cardToken('4242424242424242', { id: 'card-1' });
    await from.client.expect(201, 'POST', '/tokens', { body });
  });

  it('does not change a token with one of the ids, and names it', async () => {
    const another = await createDataDirectory();
    try {
      const running = await startStandaloneProcess({ dataDir: another });
      const made = await running
        .client()
        .expect<Application>(201, 'POST', '/applications', { body: revealingApplication() });
      const client = running.client(made.body.key);
      // A caller that knows the id of the export can put it into a request of its own.
      const headers = { 'SVC-TRACE-ID': exportId };
      const body = { id: 'text-1', type: 'token', data: 'mine' };
      await client.expect(201, 'POST', '/tokens', { body, headers });
      const args = ['import', running.credentials.tenant_id, file('whole'), '--identity', file('recipient')];
      const { code, stdout, stderr } = await runCommand(another, args);
      expect({ code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/1 tokens were not imported/) as string,
      });
      expect(stdout).toMatch(/^refused: text-1: The token id is taken\.$/m);
      expect(stdout).toMatch(/^imported: 3$/m);
      expect((await client.expect<Token>(200, 'GET', '/tokens/text-1')).body.data).toBe('mine');
    } finally {
      await removeDataDirectory(another);
    }
  });
});
