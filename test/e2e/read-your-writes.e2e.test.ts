import type { Application, LogEntry, Pagination, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  revealingApplication,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

const clients = 64;
const rounds = 3;

/** Runs `story` for 64 clients at once, each with its own index, so that some write while others read. */
const together = (story: (index: number) => Promise<void>) =>
  Promise.all(Array.from({ length: clients }, (_, index) => story(index)));

/** As long as a busy machine needs. */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;
let settlement: Client;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  manager = vault.client();
  const { body } = await manager.expect<Application>(201, 'POST', '/applications', {
    body: revealingApplication(),
  });
  settlement = manager.withKey(body.key ?? '');
});
afterAll(() => removeDataDirectory(dataDir));

/** A revocation that cannot be confirmed in time gets 503, and a repeat confirms it (rules.md §6). */
async function confirmed<Body>(...[status, method, path, options]: Parameters<typeof manager.expect>) {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await manager.request<Body>(method, path, options);
    if (answer.status === status) return answer;
    if (answer.status !== 503 || attempt === 10) throw new Error(`${method} ${path}: ${answer.status}`);
  }
}

describe('64 plain clients at once', () => {
  it('see each token they write, change and delete in the very next request', async () => {
    await together(async (index) => {
      for (let round = 0; round < rounds; round += 1) {
        const tag = `${index}-${round}`;
        const number = cardNumber();
        const { body: card } = await settlement.expect<Token>(201, 'POST', '/tokens', {
          body: cardToken(number, { metadata: { tag } }),
        });
        const read = await settlement.expect<Token>(200, 'GET', `/tokens/${card.id}`);
        expect(read.body.data).toMatchObject({ number });

        const listed = await settlement.expect<Page<Token>>(200, 'GET', `/tokens?metadata.tag=${tag}`);
        expect(listed.body.data.map(({ id }) => id)).toEqual([card.id]);
        expect(listed.body.pagination.total_items).toBe(1);

        await settlement.expect(200, 'PATCH', `/tokens/${card.id}`, {
          body: { data: { expiration_month: 1 }, metadata: { tag: `${tag}-changed` } },
        });
        const changed = await settlement.expect<Token>(200, 'GET', `/tokens/${card.id}`);
        expect(changed.body).toMatchObject({
          data: { number, expiration_month: 1 },
          metadata: { tag: `${tag}-changed` },
        });

        await settlement.expect(204, 'DELETE', `/tokens/${card.id}`);
        await settlement.expect(404, 'GET', `/tokens/${card.id}`);
        const gone = await settlement.expect<Page<Token>>(200, 'GET', `/tokens?id=${card.id}`);
        expect(gone.body.data).toEqual([]);
      }
    });
  });

  it('find each of their operations, reads included, in the log at once', async () => {
    await together(async () => {
      const { body: card } = await settlement.expect<Token>(201, 'POST', '/tokens', { body: cardToken() });
      const operations = async () => {
        const answer = await manager.expect<Page<LogEntry>>(200, 'GET', `/logs?entity_id=${card.id}`);
        return answer.body.data.map(({ operation }) => operation);
      };
      expect(await operations()).toEqual(['create']);
      await settlement.expect(200, 'GET', `/tokens/${card.id}`);
      expect(await operations()).toEqual(['read', 'create']);
      await settlement.expect(204, 'DELETE', `/tokens/${card.id}`);
      expect(await operations()).toEqual(['delete', 'read', 'create']);
    });
  });

  it('use new keys at once and are refused old ones at once', async () => {
    await together(async () => {
      const { body: made } = await manager.expect<Application>(201, 'POST', '/applications', {
        body: plainApplication(),
      });
      const first = manager.withKey(made.key ?? '');
      await first.expect(201, 'POST', '/tokens', { body: cardToken() });

      const { body: again } = await confirmed<Application>(
        200,
        'POST',
        `/applications/${made.id}/regenerate`,
      );
      await first.expect(401, 'GET', '/tokens?size=1');
      const second = manager.withKey(again.key ?? '');
      await second.expect(200, 'GET', '/tokens?size=1');

      await confirmed(200, 'PUT', `/applications/${made.id}`, {
        body: { name: 'backend', permissions: ['token:create'] },
      });
      await second.expect(403, 'GET', '/tokens?size=1');

      await confirmed(204, 'DELETE', `/applications/${made.id}`);
      await second.expect(401, 'POST', '/tokens', { body: cardToken() });
      await manager.expect(404, 'GET', `/applications/${made.id}`);
    });
  });
});

describe('a client that does not wait', () => {
  it('gets a position, and a query with this position sees the write', async () => {
    await together(async () => {
      for (let round = 0; round < rounds; round += 1) {
        const created = await settlement.expect<Token>(201, 'POST', '/tokens', {
          body: cardToken(),
          headers: { Prefer: 'respond-async' },
        });
        expect(created.headers.get('svc-consistency')).toBe('pending');
        const position = created.headers.get('svc-position') ?? '';
        expect(position).toMatch(/^\d+$/);
        const headers = { 'SVC-POSITION': position };
        await settlement.expect(200, 'GET', `/tokens/${created.body.id}`, { headers });
      }
    });
  });

  it('gets 503 with Retry-After when the position is not reached in time', async () => {
    const headers = { 'SVC-POSITION': '900000000000' };
    const { headers: answered } = await settlement.expect(503, 'GET', '/tokens?size=1', { headers });
    expect(answered.get('retry-after')).toBe('1');
    await settlement.expect(400, 'GET', '/tokens?size=1', { headers: { 'SVC-POSITION': 'soon' } });
  });
});
