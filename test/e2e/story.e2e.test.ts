import type { Application, LogEntry, Pagination, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  createTestPool,
  plainApplication,
  removeDataDirectory,
  revealingApplication,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

// One story in order: each test continues where the one before it ended.
describe('the story of a new user', () => {
  const number = cardNumber();
  const masked = `XXXXXXXXXXXX${number.slice(-4)}`;
  let dataDir: string;
  let vault: StandaloneProcess;
  let manager: Client;
  let backend: Client;
  let settlement: Client;
  let plainKey: string;
  let revealingKey: string;
  let backendApplication: Application;
  let card: Token;
  let doomed: Token;

  const logOf = async (entityId: string) => {
    const { body } = await manager.expect<Page<LogEntry>>(200, 'GET', `/logs?entity_id=${entityId}`);
    return body.data;
  };
  const keysOf = async (tokenId: string): Promise<number> => {
    const pool = createTestPool(await vault.databaseUrl());
    try {
      const { rowCount } = await pool.query('select from key_ring.data_key where entity like $1', [
        `%${tokenId}`,
      ]);
      return rowCount ?? 0;
    } finally {
      await pool.end();
    }
  };

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    vault = await startStandaloneProcess({ dataDir });
  });
  afterAll(() => removeDataDirectory(dataDir));

  it('begins with a key in a file that only its owner can read', async () => {
    const file = path.join(dataDir, 'credentials.json');
    expect(vault.output()).toContain(file);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(path.join(dataDir, 'root.key'))).mode & 0o777).toBe(0o600);
    const { credentials } = vault;
    expect(credentials.base_url.replace('localhost', '127.0.0.1')).toBe(vault.url);
    expect(credentials.management_key).toMatch(/^key_mgt_\w{22,}$/);
    // The key is not printed either, because output stays in the terminal or in a service's journal.
    expect(vault.output()).not.toContain(credentials.management_key);
  });

  it('answers health checks without a key', async () => {
    const anyone = vault.client('');
    await anyone.expect(200, 'GET', '/health/live', { key: null });
    const { body } = await anyone.expect<{ status: string; checks: object }>(200, 'GET', '/health/ready', {
      key: null,
    });
    expect(body).toMatchObject({ status: 'ready', checks: { projections: { status: 'ok' } } });
  });

  it.each(['/health/live', '/health/ready', '/openapi.json', '/docs', '/nothing'])(
    'echoes the trace id of a request for %s',
    async (at) => {
      const headers = { 'SVC-TRACE-ID': 'my-trace-1' };
      const answer = await vault.client('').request('GET', at, { key: null, headers });
      expect(answer.headers.get('SVC-TRACE-ID')).toBe('my-trace-1');
    },
  );

  it('makes two private applications with the management key', async () => {
    manager = vault.client();
    const plain = await manager.expect<Application>(201, 'POST', '/applications', {
      body: plainApplication(),
    });
    const revealing = await manager.expect<Application>(201, 'POST', '/applications', {
      body: revealingApplication('/pci/'),
    });
    backendApplication = plain.body;
    plainKey = plain.body.key ?? '';
    revealingKey = revealing.body.key ?? '';
    [backend, settlement] = [manager.withKey(plainKey), manager.withKey(revealingKey)];
    const shown = await manager.expect<Application>(200, 'GET', `/applications/${plain.body.id}`);
    expect(shown.body).not.toHaveProperty('key');
  });

  it('keeps the management key away from token data', async () => {
    await manager.expect(403, 'GET', '/tokens');
    await manager.expect(403, 'POST', '/tokens', { body: cardToken() });
  });

  it('makes a card token', async () => {
    const created = await backend.expect<Token>(201, 'POST', '/tokens', {
      body: cardToken(number, { metadata: { order: '17' } }),
    });
    card = created.body;
    expect(card).toMatchObject({
      type: 'card',
      containers: ['/pci/high/'],
      metadata: { order: '17' },
      tenant_id: vault.credentials.tenant_id,
      created_by: backendApplication.id,
      data: { number: masked },
    });
    doomed = (await backend.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
    expect(await keysOf(doomed.id)).toBeGreaterThan(0);
  });

  it('shows it masked to a plain key and in plaintext to one whose rule reveals', async () => {
    const plain = await backend.expect<Token>(200, 'GET', `/tokens/${card.id}`);
    expect(plain.body.data).toEqual({ number: masked, expiration_month: 12, expiration_year: 2040 });
    const revealed = await settlement.expect<Token>(200, 'GET', `/tokens/${card.id}`);
    expect(revealed.body.data).toEqual(cardToken(number).data);
  });

  it('lists tokens, newest first', async () => {
    const { body } = await backend.expect<Page<Token>>(200, 'GET', '/tokens');
    expect(body.pagination).toEqual({ total_items: 2, page_number: 1, page_size: 20, total_pages: 1 });
    expect(body.data.map(({ id }) => id)).toEqual([doomed.id, card.id]);
    expect(JSON.stringify(body)).not.toContain(number);
  });

  it('deletes a token with its keys', async () => {
    await backend.expect(204, 'DELETE', `/tokens/${doomed.id}`);
    await settlement.expect(404, 'GET', `/tokens/${doomed.id}`);
    await backend.expect(404, 'DELETE', `/tokens/${doomed.id}`);
    const { body } = await backend.expect<Page<Token>>(200, 'GET', `/tokens?id=${doomed.id}&id=${card.id}`);
    expect(body.data.map(({ id }) => id)).toEqual([card.id]);
    expect(await keysOf(doomed.id)).toBe(0);
    expect(await keysOf(card.id)).toBeGreaterThan(0);
  });

  it('finds all of that in the log', async () => {
    const byBackend = { actor_type: 'application', actor_id: backendApplication.id, entity_type: 'card' };
    const operations = (await logOf(card.id)).map(({ operation }) => operation);
    expect(operations).toEqual(['list', 'list', 'read', 'read', 'create']);
    expect((await logOf(doomed.id))[0]).toMatchObject({
      ...byBackend,
      operation: 'delete',
      message: 'Token deleted',
    });
    expect((await logOf(backendApplication.id)).at(-1)).toMatchObject({
      entity_type: 'application',
      operation: 'create',
    });
    const denied = await manager.expect<Page<LogEntry>>(200, 'GET', '/logs?entity_type=token');
    expect(denied.body.data.map(({ operation }) => operation)).toContain('denied');
  });

  it('stops on Ctrl-C without losses, and has all data again at the next start', async () => {
    const before = await logOf(card.id);
    expect(await vault.stop('SIGINT')).toEqual({ code: 0, signal: null });
    expect(vault.errors()).toBe('');
    const { credentials } = vault;
    vault = await startStandaloneProcess({ dataDir });
    expect(vault.credentials).toEqual(credentials);
    expect(vault.output()).not.toContain('first key');
    [manager, backend, settlement] = [vault.client(), vault.client(plainKey), vault.client(revealingKey)];
    const revealed = await settlement.expect<Token>(200, 'GET', `/tokens/${card.id}`);
    expect(revealed.body).toMatchObject({ id: card.id, data: { number }, metadata: { order: '17' } });
    await settlement.expect(404, 'GET', `/tokens/${doomed.id}`);
    expect((await logOf(card.id)).slice(1)).toEqual(before);
    await backend.expect(201, 'POST', '/tokens', { body: cardToken() });
  });
});
