import type { Application, Pagination, Token } from '@token-vault/contracts';
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
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findTraces, searchEventStore, searchFiles, searchTables, type Trace, tracesOf } from './traces.ts';

interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

const number = cardNumber();
/**
 * Put into places that are not secret, so that the search must find it. Shorter than a card number, which no trace id
 * may hold.
 */
const planted = cardNumber('5').slice(0, 12);

let dataDir: string;
let vault: StandaloneProcess;
let backend: Client;
let settlement: Client;
let collector: Client;
let card: Token;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  // The most detailed log level.
  vault = await startStandaloneProcess({ dataDir, env: { VAULT_LOG_LEVEL: 'debug' } });
  const manager = vault.client();
  const make = async (body: object) => {
    const answer = await manager.expect<Application>(201, 'POST', '/applications', { body });
    return manager.withKey(answer.body.key ?? '');
  };
  backend = await make(plainApplication());
  settlement = await make(revealingApplication());
  collector = await make({ name: 'collector', type: 'public', permissions: ['token:create'] });
});
afterAll(() => removeDataDirectory(dataDir));

describe('a marked card number', () => {
  it('is stored, shown to a caller that may see it, found, changed and tokenized', async () => {
    const body = cardToken(number, {
      search_indexes: ['{{ data.number }}', '{{ data.number | last4 }}'],
      fingerprint_expression: '{{ data.number }}',
      metadata: { planted, encoded: Buffer.from(`x${planted}`).toString('base64') },
    });
    card = (await backend.expect<Token>(201, 'POST', '/tokens', { body })).body;
    await collector.expect(201, 'POST', '/tokens', { body: cardToken(number) });
    const masked = await backend.expect(200, 'GET', `/tokens/${card.id}`);
    expect(masked.text).not.toContain(number);
    const revealed = await settlement.expect<Token>(200, 'GET', `/tokens/${card.id}`);
    expect(revealed.body.data).toMatchObject({ number });
    expect((await settlement.expect(200, 'GET', '/tokens')).text).toContain(number);

    const query = { query: `data:${number}` };
    const found = await settlement.expect<Page<Token>>(200, 'POST', '/tokens/search', { body: query });
    expect(found.body.data.map(({ id }) => id)).toEqual([card.id]);

    const patch = { body: { data: { number, expiration_month: 3 }, metadata: { again: 'yes' } } };
    await settlement.expect(200, 'PATCH', `/tokens/${card.id}`, patch);
    const tokenized = await settlement.expect(200, 'POST', '/tokenize', {
      body: {
        bare: number,
        deep: [
          { type: 'card', data: { number } },
          { type: 'card_number', data: number },
        ],
      },
    });
    expect(tokenized.text).not.toContain(`"bare":"${number}"`);
    const deduplicated = { body: { ...body, deduplicate_token: true } };
    await settlement.expect(200, 'POST', '/tokens', deduplicated);
  });

  it('is answered twice to a request with an idempotency key', async () => {
    const options = { body: cardToken(number), headers: { 'SVC-IDEMPOTENCY-KEY': 'once-only' } };
    const first = await settlement.expect<Token>(201, 'POST', '/tokens', options);
    expect(first.body.data).toMatchObject({ number });
    await settlement.request('POST', '/tokens', options);
  });

  it('is in requests of every kind that are refused', async () => {
    // Twenty digits are always too many. With one more digit the text could be a number again.
    const refusals: [number, Promise<{ status: number; text: string }>][] = [
      [400, backend.request('POST', '/tokens', { text: `{"type":"card","data":{"number":"${number}"` })],
      [400, backend.request('POST', '/tokens', { text: `${number}x` })],
      [400, backend.request('POST', '/tokens', { body: { type: 'no-such', data: number } })],
      [400, backend.request('POST', '/tokens', { body: { type: number, data: {} } })],
      [400, backend.request('POST', '/tokens', { body: cardToken(`${number}1111`) })],
      [400, backend.request('POST', '/tokens', { body: cardToken(number, { containers: [`${number} ?`] }) })],
      [400, backend.request('POST', '/tokens', { body: cardToken(number, { expires_at: number }) })],
      [400, backend.request('POST', '/tokens', { body: cardToken(number, { deduplicate_token: number }) })],
      [400, backend.request('POST', '/tokens/search', { body: { query: `data:"${number}` } })],
      [400, backend.request('PATCH', `/tokens/${card.id}`, { body: { data: { number: `${number}2222` } } })],
      [
        415,
        backend.request('PATCH', `/tokens/${card.id}`, {
          body: { data: { number } },
          headers: { 'Content-Type': 'application/json' },
        }),
      ],
      [413, backend.request('POST', '/tokens', { body: { type: 'token', data: number.repeat(70_000) } })],
      [409, backend.request('POST', '/tokens', { body: cardToken(number, { id: card.id }) })],
      [401, backend.request('POST', '/tokens', { body: cardToken(number), key: `key_pvt_${number}` })],
      [401, backend.request('POST', '/tokens', { body: cardToken(number), key: null })],
      [403, collector.request('PATCH', `/tokens/${card.id}`, { body: { data: { number } } })],
      [403, collector.request('GET', `/tokens?id=${number}`)],
      [404, backend.request('PATCH', '/tokens/no-such-token', { body: { data: { number } } })],
    ];
    for (const [status, answer] of refusals) {
      const { status: actual, text } = await answer;
      expect(text).not.toContain(number);
      expect({ actual, text }).toMatchObject({ actual: status });
    }
    // An answer may name the address and quote an expression, which are not secret. Neither is stored or logged.
    await backend.expect(400, 'POST', '/tokens', { body: cardToken(number, { mask: `{{ ${number} | no` }) });
    await backend.expect(404, 'GET', `/tokens/${number}`);
    await backend.expect(404, 'DELETE', `/tokens/${number}`);
    await backend.expect(404, 'POST', `/no-such-path/${number}`, { body: { number } });
    await backend.expect(200, 'GET', `/tokens?id=${number}&type=card`);
    await backend.expect(200, 'GET', `/tokens?metadata.number=${number}`);
    await vault.client().expect(200, 'GET', `/logs?entity_id=${number}`);
    await backend.expect(404, 'GET', '/tokens/traced', { headers: { 'SVC-TRACE-ID': `trace-${number}` } });
    const enlisting = { headers: { 'SVC-TRANSACTION-ID': randomUUID() } };
    await backend.expect(404, 'DELETE', `/tokens/${number}`, enlisting);
    await backend.expect(403, 'GET', `/reactors/${randomUUID()}?${number}`);
    await backend.expect(404, 'GET', '/tokens/planted-in-the-log', {
      headers: { 'SVC-TRACE-ID': `planted-${planted}` },
    });
  });

  it('is in no log, no table and no file of the database', async () => {
    const pool = createTestPool(await vault.databaseUrl());
    const traces = tracesOf(number);
    const searchStores = async (sought: readonly Trace[]) => [
      ...(await searchTables(pool, sought)),
      ...(vault.eventStoreUrl ? await searchEventStore(vault.eventStoreUrl, sought) : []),
    ];
    const inTables = await searchStores(traces);
    const plantedInTables = await searchStores(tracesOf(planted));
    await pool.query('checkpoint');
    await pool.end();
    const inFiles = await searchFiles(dataDir, traces);
    const plantedInFiles = await searchFiles(dataDir, tracesOf(planted));
    await vault.stop();

    expect(findTraces(traces, Buffer.from(vault.output()))).toEqual([]);
    expect(inTables).toEqual([]);
    expect(inFiles).toEqual([]);
    expect(await searchFiles(dataDir, traces)).toEqual([]);

    // The same search finds the planted text.
    expect(findTraces(tracesOf(planted), Buffer.from(vault.output()))).toContain('joined by ""');
    expect(plantedInTables).toContain('event_store.event: joined by ""');
    expect(plantedInTables).toContain('event_store.event: base64 at offset 1');
    expect(plantedInFiles.join()).toMatch(/pg_wal\/\w+: joined by ""/);
    expect(plantedInFiles.join()).toMatch(/base\/\w+\/\w+: joined by ""/);
  });
});

describe('the search', () => {
  const spaced = number.replaceAll(/(.{4})(?!$)/g, '$1 ');
  it.each([
    ['plain', number],
    ['spaced', spaced],
    ['base64', Buffer.from(`{"number":"${number}"}`).toString('base64')],
    ['shifted base64', Buffer.from(`{"number": "${number}"}`).toString('base64')],
    ['shifted base64 again', Buffer.from(`{"number":  "${number}"}`).toString('base64')],
    ['hex', Buffer.from(`{"number":"${number}"}`).toString('hex')],
    ['UTF-16', Buffer.from(`.${number}`, 'utf16le').toString('latin1')],
  ])('finds a number written as %s', (_form, written) => {
    expect(findTraces(tracesOf(number), Buffer.from(written, 'latin1'))).not.toEqual([]);
    expect(findTraces(tracesOf(planted), Buffer.from(written, 'latin1'))).toEqual([]);
  });
});
