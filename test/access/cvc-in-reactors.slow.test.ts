import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import type { Token } from '@token-vault/contracts';
import { cardToken, revealingApplication, waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { useDatabase } from '../world/database.ts';
import { repeatable } from '../world/repeats.ts';
import { type Caller, makeCard, useVault } from '../world/vault.ts';

const cvc = '737';

const vault = useVault();
const database = useDatabase(vault);
let caller: Caller;

beforeAll(async () => {
  caller = await vault.makeApplication(revealingApplication('/', { permissions: ['token:use'] }));
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
  return `/reactors/${await vault.makeReactor(code, { application: caller })}/react`;
}

/**
 * The card is slightly older than the run, so the ends of the two keys differ unless one is derived from the other.
 */
const cvcEndOf = async (cardId: string): Promise<Date> => {
  const text = `select destroy_after from key_ring.data_key where entity = $1 and purpose = 'cvc'`;
  const { rows } = await database.query<{ destroy_after: Date }>(text, [`token:${cardId}`]);
  return rows[0]?.destroy_after ?? new Date(NaN);
};

/** Moves time for everything that ends with the cvc, as if its hour were over. Other keys stay. */
async function endCvc(end: Date): Promise<void> {
  const text = `update key_ring.data_key set destroy_after = now() - interval '1 second' where destroy_after = $1`;
  await database.query(text, [end]);
}

describe('a cvc that reactor code was shown by req.svc', () => {
  it.each(Object.entries(codes))(
    'ends with the answer of the run: no remaining key opens it (%s)',
    async (_method, expression) => {
      const id = await makeCard(caller.client);
      const path = await makeReactor(expression);
      const send = repeatable(caller.client, 'POST', path, { args: { id } });
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
    const { id } = (await caller.client.expect<Token>(201, 'POST', '/tokens', { body: cardWithoutCvc() }))
      .body;
    const other = await makeCard(caller.client);
    const path = await makeReactor(codes.retrieve);
    const send = repeatable(caller.client, 'POST', path, { args: { id } });
    const first = await send();
    await endCvc(await cvcEndOf(other));
    expect(await send()).toMatchObject({ status: 200, text: first.text });
  });

  it('ends with the outcome of a run from the queue, whose delivery is given up', async () => {
    const path = await makeReactor(codes.retrieve);
    const withCvc = await makeCard(caller.client);
    const without = (await caller.client.expect<Token>(201, 'POST', '/tokens', { body: cardWithoutCvc() }))
      .body.id;
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
        await caller.client.expect(202, 'POST', path, { body });
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
