import { randomUUID } from 'node:crypto';
import type { LogEntry, Token } from '@token-vault/contracts';
import { cardNumber, cardToken, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useDatabase } from '../world/database.ts';
import { useReceiver } from '../world/receivers.ts';
import { loseAnswers, repeatable } from '../world/repeats.ts';
import { permissions, rule } from '../world/rules.ts';
import { type Caller, makeCard, useVault } from '../world/vault.ts';

const number = cardNumber();
const vault = useVault();
const database = useDatabase(vault);
const receiver = useReceiver(beforeEach);
const { manager, makeApplication } = vault;
/** Invokes reactors and has no right to read. */
let caller: Caller;
/** The application by whose rights the code reads. */
let reader: Caller;
let cardId: string;

const narrow = (rules: readonly object[]) =>
  manager.expect(200, 'PUT', reader.path, { body: { name: 'a', rules } });

/** Gives the path by which the reactor is invoked. */
const makeReactor = async (code: string, application = reader): Promise<string> =>
  `/reactors/${await vault.makeFunction(code, { application, configuration: { GATE: receiver.url } })}/react`;

const invocation = (path: string, args: object) => repeatable(caller.client, 'POST', path, { args });
const cutOff = () => loseAnswers(database);

const readings = (): Promise<readonly LogEntry[]> =>
  vault.logOf({ entity_id: cardId, actor_id: reader.id, operation: 'read' });

beforeAll(async () => {
  caller = await makeApplication({ permissions: ['token:use'] });
});
beforeEach(async () => {
  reader = await makeApplication({ rules: [rule()] });
  cardId = await makeCard(reader.client, number);
});

const withdrawals: Readonly<Record<string, () => Promise<unknown>>> = {
  'may only see it masked': () => narrow([rule({ transform: 'mask' })]),
  'may not read its container': () => narrow([rule({ container: '/elsewhere/' })]),
  'was deleted': () => manager.expect(204, 'DELETE', reader.path),
};
/** The application may delete the card and do anything in another container. */
const narrowToMine = () =>
  narrow([rule({ permissions: ['token:delete'] }), rule({ priority: 2, container: '/mine/' })]);
/** Withdrawals of rights after which the application ends the token or makes another of its id. This must not give the rights back. */
const goings: Readonly<Record<string, () => Promise<unknown>>> = {
  'may not read the card, and deletes it': async () => {
    await narrowToMine();
    await reader.client.expect(204, 'DELETE', `/tokens/${cardId}`);
  },
  'may not read the card, and makes another token of its id': async () => {
    await narrowToMine();
    await reader.client.expect(204, 'DELETE', `/tokens/${cardId}`);
    const body = { ...cardToken(), id: cardId, containers: ['/mine/'] };
    await reader.client.expect(201, 'POST', '/tokens', { body });
  },
  'is deleted after the card': async () => {
    await narrowToMine();
    await reader.client.expect(204, 'DELETE', `/tokens/${cardId}`);
    await manager.expect(204, 'DELETE', reader.path);
  },
};
const reading = 'return { raw: await svc.tokens.retrieve(args.id) };';

/** The ways by which the code can be shown the card. */
const codes = {
  retrieve: reading,
  list: 'return { raw: await svc.tokens.list({ id: [args.id] }) };',
  search: "return { raw: await svc.tokens.search({ query: 'id:' + args.id }) };",
  update: "return { raw: await svc.tokens.update(args.id, { metadata: { seen: 'yes' } }) };",
};

describe('the repeat of a run whose code was shown a card by req.svc', () => {
  it('is recorded as a reading by the application of the reactor', async () => {
    const send = invocation(await makeReactor(reading), { id: cardId });
    const first = await send();
    expect(first.text).toContain(number);
    expect(await readings()).toHaveLength(1);
    expect((await send()).text).toBe(first.text);
    expect(await readings()).toHaveLength(2);
    await cutOff();
    expect((await send()).text).toBe(first.text);
    const all = await readings();
    expect(all.map(({ transform, request }) => [transform, request])).toEqual([
      ['reveal', 'react'],
      ['reveal', 'react'],
      ['reveal', 'getToken'],
    ]);
  });

  it.each(Object.entries(withdrawals))('is refused once that application %s', async (_how, withdraw) => {
    const send = invocation(await makeReactor(reading), { id: cardId });
    expect((await send()).text).toContain(number);
    await withdraw();
    const refused = await send();
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain(number);
    await cutOff();
    const later = await send();
    expect([later.status, later.text.includes(number)]).toEqual([403, false]);
  });

  it.each(Object.entries(codes))('is refused by whichever call it was shown (%s)', async (_call, code) => {
    const send = invocation(await makeReactor(code), { id: cardId });
    expect((await send()).text).toContain(number);
    expect((await send()).status).toBe(200);
    await narrow([rule({ transform: 'mask' })]);
    const refused = await send();
    expect([refused.status, refused.text.includes(number)]).toEqual([403, false]);
  });

  it('is shown while the application may still see as much as the code was shown', async () => {
    await narrow([rule({ transform: 'mask' })]);
    const send = invocation(await makeReactor(reading), { id: cardId });
    const first = await send();
    await narrow([rule({ description: 'another rule', priority: 7 })]);
    expect((await send()).text).toBe(first.text);
  });

  it('is decided by the application of the inner run, where runs are nested', async () => {
    const inner = await makeReactor(reading);
    const id = inner.split('/')[2];
    const outside = await makeApplication({ permissions: ['token:use'] });
    const code = `return { raw: await svc.reactors.react('${id}', { args }) };`;
    const send = invocation(await makeReactor(code, outside), { id: cardId });
    expect((await send()).text).toContain(number);
    await narrow([rule({ transform: 'mask' })]);
    const refused = await send();
    expect([refused.status, refused.text.includes(number)]).toEqual([403, false]);
  });

  it('is not shown when the record of what the code was shown was changed in the database', async () => {
    const send = invocation(await makeReactor(reading), { id: cardId });
    expect((await send()).text).toContain(number);
    await narrow([rule({ transform: 'mask' })]);
    await database.query(
      `update event_store.event set data = ((data::jsonb - 'sealed_with_tokens') || '{"seen_token_ids": []}')::json
        where type = 'ReactorSucceeded'`,
    );
    await cutOff();
    const refused = await send();
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(refused.text).not.toContain(number);
  });
});

const readingThenWaiting = `const card = await svc.tokens.retrieve(args.id);
  await fetch(configuration.GATE);
  if (args.fails) throw new Error(JSON.stringify(card));
  return { raw: card };`;

/** The answer of a run whose code has read the card and waits while `act` is done. */
async function answerAfter(act: () => Promise<unknown>, args: object = {}, code = readingThenWaiting) {
  const path = await makeReactor(code);
  receiver.plan('hang');
  const running = caller.client.request('POST', path, { body: { args: { id: cardId, ...args } } });
  await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
  await act();
  receiver.release();
  return running;
}

describe('the answer of a run whose code was shown a card by req.svc', () => {
  it.each(Object.entries({ ...withdrawals, ...goings }))(
    'is refused when that application %s before the run ends',
    async (_how, withdraw) => {
      const refused = await answerAfter(withdraw);
      expect([refused.status, refused.text.includes(number)]).toEqual([403, false]);
    },
  );

  it('does not quote the card in the error of the code either', async () => {
    const refused = await answerAfter(() => narrow([rule({ transform: 'mask' })]), { fails: true });
    expect([refused.status, refused.text.includes(number)]).toEqual([403, false]);
  });

  it('is given although a token that it made has moved to where its application may make none', async () => {
    const [within, elsewhere] = ['/in/', '/out/'];
    await narrow([
      rule({ container: within, permissions: ['token:create', 'token:update'] }),
      rule({ container: elsewhere, permissions: ['token:update'], priority: 2 }),
    ]);
    const code = `const { id } = await svc.tokens.create({ type: 'token', data: 'made', containers: ['${within}'] });
      await svc.tokens.update(id, { containers: ['${elsewhere}'] });
      await fetch(configuration.GATE);
      return { raw: 'moved' };`;
    const answer = await answerAfter(() => Promise.resolve(), {}, code);
    expect([answer.status, answer.body]).toEqual([200, { raw: 'moved' }]);
  });

  it('is given although a token that it was shown was deleted meanwhile', async () => {
    const answer = await answerAfter(async () => {
      await narrow([rule({ permissions: [...permissions, 'token:delete'] })]);
      await reader.client.expect(204, 'DELETE', `/tokens/${cardId}`);
    });
    expect(answer.status).toBe(200);
  });
});

/** Requests whose success depends on the data of the card, so their errors give the code information about it. */
const telling = {
  detokenize: `svc.detokenize({ a: "{{ " + args.id + " | json: '$.nothing' }}" })`,
  update: `svc.tokens.update(args.id, { fingerprint_expression: "{{ data | json: '$.nothing' }}" })`,
};

describe('the answer of a run whose code learned about a card by an error', () => {
  it.each(Object.entries(telling))('is refused when the right was withdrawn (%s)', async (_call, request) => {
    const code = `let told = 'nothing';
      try { await ${request}; } catch (error) { told = error.status; }
      await fetch(configuration.GATE);
      return { raw: told };`;
    const told = await answerAfter(() => Promise.resolve(), {}, code);
    expect([told.status, told.body]).toEqual([200, { raw: 400 }]);
    const refused = await answerAfter(() => narrow([rule({ transform: 'mask' })]), {}, code);
    expect([refused.status, refused.text.includes('"raw"')]).toEqual([403, false]);
  });
});

/** Requests whose answers give the code information about data by a number or an error only. */
const counting = {
  'a search of size 0': "svc.tokens.search({ query: 'data:' + args.value, size: 0 })",
  'a page beyond the last one': "svc.tokens.search({ query: 'data:' + args.value, page: 2 })",
  'a negated term': "svc.tokens.search({ query: 'id:' + args.id + ' AND NOT data:' + args.value })",
};

describe('the answer of a run whose code learned about a token by the total of a search', () => {
  let id: string;
  let value: string;
  beforeEach(async () => {
    value = randomUUID();
    const body = { type: 'token', data: value, search_indexes: ['{{ data }}'] };
    id = (await reader.client.expect<Token>(201, 'POST', '/tokens', { body })).body.id;
  });

  it('is refused when its data may not be searched any more, though the page may be shown', async () => {
    await narrow([rule({ transform: 'mask' })]);
    const code = `const { pagination } = await svc.tokens.search({ query: 'data:' + args.value });
      await fetch(configuration.GATE);
      return { raw: pagination.total_items };`;
    const closed = () => narrow([rule({ transform: 'mask', search_data: false })]);
    const refused = await answerAfter(closed, { id, value }, code);
    expect(refused.status).toBe(403);
  });

  it.each(Object.entries(counting))('is refused when the right was withdrawn (%s)', async (_how, request) => {
    const code = `const { pagination } = await ${request};
      await fetch(configuration.GATE);
      return { raw: { total: pagination.total_items } };`;
    const total = request.includes('NOT') ? 0 : 1;
    const told = await answerAfter(() => Promise.resolve(), { id, value }, code);
    expect([told.status, told.body]).toEqual([200, { raw: { total } }]);
    const refused = await answerAfter(() => narrow([rule({ container: '/mine/' })]), { id, value }, code);
    expect([refused.status, refused.text.includes('total')]).toEqual([403, false]);
  });
});

/** The text of the refusal that is sent in place of a result with the card, once `change` is made. */
async function secondDelivery(by: Caller, path: string, args: object, change: () => Promise<unknown>) {
  receiver.plan(500);
  await by.client.expect(202, 'POST', path, { body: { args, callback_url: receiver.url } });
  await waitUntil(() => receiver.deliveries.length === 1, { timeoutMs: 15_000, what: 'a first attempt' });
  expect(receiver.deliveries[0]?.text).toContain(number);
  await change();
  await waitUntil(() => receiver.deliveries.length === 2, { timeoutMs: 25_000, what: 'a second attempt' });
  return receiver.deliveries[1]?.text ?? '';
}

function expectRefusal(text: string): void {
  expect(JSON.parse(text)).toMatchObject({ status: 403, detail: 'Forbidden' });
  expect(text).not.toContain(number);
}

describe('the delivery of a result of a token in the arguments', () => {
  it.each(Object.entries(goings))(
    'is refused once the caller %s',
    async (_how, go) => {
      const path = await makeReactor('return { raw: args };', caller);
      expectRefusal(await secondDelivery(reader, path, { card: `{{ ${cardId} }}` }, go));
    },
    60_000,
  );
});

describe('the delivery of a result whose code was shown a card by req.svc', () => {
  it.each(Object.entries(withdrawals))(
    'sends a refusal once that application %s, and every sending is recorded as a reading',
    async (how, withdraw) => {
      const path = await makeReactor(reading);
      expectRefusal(await secondDelivery(caller, path, { id: cardId }, withdraw));
      expect((await readings()).map(({ request }) => request)).toEqual(['react', 'getToken']);
      // Without its application the reactor itself is refused.
      const refusedId = how === 'was deleted' ? (path.split('/')[2] ?? '') : cardId;
      expect(await vault.logOf({ entity_id: refusedId, operation: 'denied' })).toHaveLength(1);
    },
    60_000,
  );
});
