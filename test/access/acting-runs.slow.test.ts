import type { Application, Reactor, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startReceiver, type Receiver } from '../e2e/receiver.ts';

// After the answer to a withdrawal, running code can do nothing more with the data that it has read.

const number = cardNumber();
const permissions = ['token:create', 'token:read', 'token:search', 'token:use'];
const rule = (container: string, priority = 1) => ({
  description: 'of the test',
  priority,
  container,
  transform: 'reveal',
  permissions,
});

let dataDir: string;
let manager: Client;
/** Sees everything. */
let owner: Client;
let receiver: Receiver;

async function application(grants: object): Promise<{ readonly id: string; readonly client: Client }> {
  const body = { name: 'a', type: 'private', ...grants };
  const made = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { id: made.id, client: manager.withKey(made.key ?? '') };
}

async function reactor(code: string, applicationId: string): Promise<string> {
  const body = {
    name: 'r',
    configuration: { RECEIVER: receiver.url },
    code: `module.exports = async ({ args, svc, configuration }) => { ${code} }`,
    application: { id: applicationId },
  };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir, env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8' } });
  manager = vault.client();
  owner = (await application({ rules: [rule('/')] })).client;
});
afterAll(() => removeDataDirectory(dataDir));
beforeEach(async () => {
  receiver = await startReceiver();
  return () => receiver.close();
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
        body: { name: 'a', rules: [rule('/mine/')] },
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
  return (await owner.expect<{ data: Token[] }>(200, 'GET', path)).body.data.length;
}

/** A run that has read the card and continues with `act` after `withdraw`. Gives the answer and the effects of `act`. */
async function run(act: string, withdraw: (of: Run) => Promise<unknown>) {
  const [reader, caller] = [
    await application({ rules: [rule('/')] }),
    await application({ permissions: ['token:use'] }),
  ];
  const card = (await owner.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
  const send =
    "await fetch(configuration.RECEIVER + '/other', { method: 'POST', body: JSON.stringify(args) });";
  const other = await reactor(send, reader.id);
  const code = `const card = await svc.tokens.retrieve(args.id);
    await fetch(configuration.RECEIVER + '/gate');
    ${act}
    return {};`;
  const reactorId = await reactor(code, reader.id);
  receiver.plan('hang');
  const answer = caller.client.request('POST', `/reactors/${reactorId}/react`, {
    body: { args: { id: card.id, other } },
  });
  await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
  await withdraw({ readerId: reader.id, callerId: caller.id, reactorId, cardId: card.id });
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
    const other = (await owner.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
    const { status } = await run(
      `await new Promise((resolve) => setTimeout(resolve, 1_100));
       await svc.tokens.retrieve('${other.id}');`,
      withdraw,
    );
    expect(status).toBeGreaterThanOrEqual(400);
    const path = `/logs?entity_id=${other.id}&operation=read`;
    expect((await manager.expect<{ data: unknown[] }>(200, 'GET', path)).body.data).toEqual([]);
  });

  describe.each(withdrawals)('cannot use it once %s', (_what, withdraw) => {
    it.each(Object.entries(acts))('%s', async (_act, code) => {
      const { status, sent, made } = await run(code, withdraw);
      expect(status).toBeGreaterThanOrEqual(400);
      expect([sent, made - before]).toEqual([0, 0]);
    });
  });
});
