import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import type { Application, Reactor, Token } from '@token-vault/contracts';
import {
  cardToken,
  type Client,
  createDataDirectory,
  createTestPool,
  removeDataDirectory,
  revealingApplication,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const cvc = '737';

let dataDir: string;
let manager: Client;
let caller: Client;
let callerId: string;
let pool: Pool;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({
    dataDir,
    env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8' },
  });
  manager = vault.client();
  pool = createTestPool(await vault.databaseUrl());
  const body = revealingApplication('/', { permissions: ['token:use'] });
  const made = await manager.expect<Application>(201, 'POST', '/applications', { body });
  callerId = made.body.id;
  caller = manager.withKey(made.body.key ?? '');
});
afterAll(async () => {
  await pool.end();
  await removeDataDirectory(dataDir);
});

/** A receiver of webhooks. `answer` gives the status of the response. */
async function startReceiver(answer: (text: string) => Promise<number>) {
  const server = createServer((request, response) => {
    void textOf(request)
      .then(answer)
      .then((status) => response.writeHead(status).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()),
  };
}

const makeCard = async (): Promise<string> =>
  (await caller.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body.id;

function cardWithoutCvc(): object {
  const { data, ...rest } = cardToken();
  const { cvc: _cvc, ...lasting } = data;
  return { ...rest, data: lasting };
}

/** The code shows of the card only what passed through `req.svc`. */
const codes = {
  retrieve: 'await svc.tokens.retrieve(args.id)',
  list: 'await svc.tokens.list({ id: [args.id] })',
  search: "await svc.tokens.search({ query: 'id:' + args.id })",
  update: "await svc.tokens.update(args.id, { metadata: { seen: 'yes' } })",
};

async function makeReactor(expression: string): Promise<string> {
  const code = `module.exports = async ({ args, svc }) => ({ raw: ${expression} })`;
  const body = { name: 'r', configuration: {}, code, application: { id: callerId } };
  const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body;
  return `/reactors/${id}/react`;
}

/**
 * The card is slightly older than the run, so the ends of the two keys differ unless one is derived from the other.
 */
const cvcEndOf = async (cardId: string): Promise<Date> => {
  const text = `select destroy_after from key_ring.data_key where entity = $1 and purpose = 'cvc'`;
  const { rows } = await pool.query<{ destroy_after: Date }>(text, [`token:${cardId}`]);
  return rows[0]?.destroy_after ?? new Date(NaN);
};

/** Moves time for everything that ends with the cvc, as if its hour were over. Other keys stay. */
async function endCvc(end: Date): Promise<void> {
  const text = `update key_ring.data_key set destroy_after = now() - interval '1 second' where destroy_after = $1`;
  await pool.query(text, [end]);
}

describe('a cvc that reactor code was shown by req.svc', () => {
  it.each(Object.entries(codes))(
    'ends with the answer of the run: no remaining key opens it (%s)',
    async (_method, expression) => {
      const id = await makeCard();
      const path = await makeReactor(expression);
      const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
      const send = () => caller.request('POST', path, { headers, body: { args: { id } } });
      const first = await send();
      expect({ status: first.status, shown: first.text.includes(cvc) }).toEqual({ status: 200, shown: true });
      expect((await send()).text).toBe(first.text);
      await endCvc(await cvcEndOf(id));
      const later = await send();
      expect({ status: later.status, shown: later.text.includes(cvc) }).toEqual({
        status: 404,
        shown: false,
      });
    },
  );

  it('does not end an answer without a cvc', async () => {
    const { id } = (await caller.expect<Token>(201, 'POST', '/tokens', { body: cardWithoutCvc() })).body;
    const other = await makeCard();
    const path = await makeReactor(codes.retrieve);
    const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
    const send = () => caller.request('POST', path, { headers, body: { args: { id } } });
    const first = await send();
    await endCvc(await cvcEndOf(other));
    expect(await send()).toMatchObject({ status: 200, text: first.text });
  });

  it('ends with the outcome of a run from the queue, whose delivery is given up', async () => {
    const path = await makeReactor(codes.retrieve);
    const withCvc = await makeCard();
    const without = (await caller.expect<Token>(201, 'POST', '/tokens', { body: cardWithoutCvc() })).body.id;
    const end = await cvcEndOf(withCvc);
    const delivered: string[] = [];
    const receiver = await startReceiver(async (text) => {
      if (text.includes(withCvc)) await endCvc(end);
      delivered.push(text);
      return 500;
    });
    try {
      // One after the other, so that the second attempt of the latter comes after the former would have had its own.
      for (const id of [withCvc, without]) {
        const body = { args: { id }, callback_url: receiver.url };
        await caller.expect(202, 'POST', path, { body });
        await waitUntil(() => delivered.some((text) => text.includes(id)), { what: 'the first attempt' });
      }
      const attempts = (id: string) => delivered.filter((text) => text.includes(id)).length;
      await waitUntil(() => attempts(without) > 1, { timeoutMs: 25_000, what: 'the second attempt' });
      expect(delivered.filter((text) => text.includes(cvc))).toHaveLength(1);
      expect(attempts(withCvc)).toBe(1);
    } finally {
      await receiver.close();
    }
  }, 60_000);
});
