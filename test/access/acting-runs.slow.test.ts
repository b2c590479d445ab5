import type { Token } from '@token-vault/contracts';
import { cardNumber, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Caller, makeCard, useVault } from '../world/vault.ts';
import { useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';

// After the answer to a withdrawal, running code can do nothing more with the data that it has read.

const number = cardNumber();
const vault = useVault();
const { manager, makeApplication } = vault;
const receiver = useReceiver(beforeEach);
/** Sees everything. */
let owner: Caller;

const makeReactor = (code: string, application: Caller): Promise<string> =>
  vault.makeFunction(code, { application, configuration: { RECEIVER: receiver.url } });

beforeAll(async () => {
  owner = await makeApplication({ rules: [rule()] });
});

interface Run {
  readonly readerId: string;
  readonly callerId: string;
  readonly reactorId: string;
  readonly cardId: string;
}
const withdrawals: readonly [string, (run: Run) => Promise<unknown>][] = [
  [
    'the application of the reactor may not read the card',
    ({ readerId }) =>
      manager.expect(200, 'PUT', `/applications/${readerId}`, {
        body: { name: 'a', rules: [rule({ container: '/mine/' })] },
      }),
  ],
  ['the caller was deleted', ({ callerId }) => manager.expect(204, 'DELETE', `/applications/${callerId}`)],
  ['the reactor was deleted', ({ reactorId }) => manager.expect(204, 'DELETE', `/reactors/${reactorId}`)],
];

const mine =
  "{ type: 'token', data: JSON.stringify(card), containers: ['/mine/'], metadata: { of: 'acts' } }";
/** The operations of code with the card that it has read. */
const acts: Readonly<Record<string, string>> = {
  'send it': "await fetch(configuration.RECEIVER + '/out', { method: 'POST', body: JSON.stringify(card) });",
  'make a token of it': `await svc.tokens.create(${mine});`,
  'make several tokens of it': `await svc.tokens.createMany({ tokens: [${mine}] });`,
  'give it to other code': 'await svc.reactors.react(args.other, { args: { card: card.data } });',
  'give it to other code that runs later':
    "await svc.reactors.react(args.other, { args: { card: card.data }, callback_url: configuration.RECEIVER + '/later' });",
  'make its output of it': `return { tokenize: ${mine} };`,
};

async function countMade(): Promise<number> {
  const path = '/tokens?metadata.of=acts&size=100';
  return (await owner.client.expect<{ data: Token[] }>(200, 'GET', path)).body.data.length;
}

/** A run that has read the card and continues with `act` after `withdraw`. Gives the answer and the effects of `act`. */
async function run(act: string, withdraw: (of: Run) => Promise<unknown>) {
  const [reader, caller] = [
    await makeApplication({ rules: [rule()] }),
    await makeApplication({ permissions: ['token:use'] }),
  ];
  const cardId = await makeCard(owner.client, number);
  const send =
    "await fetch(configuration.RECEIVER + '/other', { method: 'POST', body: JSON.stringify(args) });";
  const other = await makeReactor(send, reader);
  const code = `const card = await svc.tokens.retrieve(args.id);
    await fetch(configuration.RECEIVER + '/gate');
    ${act}
    return {};`;
  const reactorId = await makeReactor(code, reader);
  receiver.plan('hang');
  const answer = caller.client.request('POST', `/reactors/${reactorId}/react`, {
    body: { args: { id: cardId, other } },
  });
  await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
  await withdraw({ readerId: reader.id, callerId: caller.id, reactorId, cardId });
  receiver.release();
  const { status } = await answer;
  const texts = receiver.deliveries.map(({ text }) => text).filter((text) => text.includes(number));
  return { status, sent: texts.length, made: await countMade() };
}

describe('code that has read a card', () => {
  let before: number;
  beforeEach(async () => {
    before = await countMade();
  });

  it.each(Object.entries(acts))('may %s', async (_act, code) => {
    const { status, sent, made } = await run(code, () => Promise.resolve());
    expect(status).toBe(200);
    const isLater = code.includes('callback_url');
    if (isLater)
      await waitUntil(() => receiver.deliveries.some(({ text }) => text.includes(number)), {
        timeoutMs: 15_000,
        what: 'the request of the other code',
      });
    else expect(sent + made - before).toBe(1);
  });

  it.each(withdrawals)('reads nothing more a second after %s', async (_what, withdraw) => {
    const other = await makeCard(owner.client, number);
    const { status } = await run(
      `await new Promise((resolve) => setTimeout(resolve, 1_100));
       await svc.tokens.retrieve('${other}');`,
      withdraw,
    );
    expect(status).toBeGreaterThanOrEqual(400);
    expect(await vault.logOf({ entity_id: other, operation: 'read' })).toEqual([]);
  });

  describe.each(withdrawals)('cannot use it once %s', (_what, withdraw) => {
    it.each(Object.entries(acts))('%s', async (_act, code) => {
      const { status, sent, made } = await run(code, withdraw);
      expect(status).toBeGreaterThanOrEqual(400);
      expect([sent, made - before]).toEqual([0, 0]);
    });
  });
});
