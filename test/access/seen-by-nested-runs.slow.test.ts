import { randomUUID } from 'node:crypto';
import type { Token } from '@token-vault/contracts';
import { cardNumber, cardToken, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { repeatable } from '../world/repeats.ts';
import { rule } from '../world/rules.ts';
import { type Caller, useVault } from '../world/vault.ts';

const number = cardNumber();
const vault = useVault();
const { manager, makeApplication } = vault;
/** Invokes reactors and has no right to read. */
let caller: Caller;
/** The application by whose rights the inner code reads. */
let reader: Caller;
/** The application of the outer reactor: it has no right to read. */
let outside: Caller;
let cardId: string;

/** The reader may see cards only masked, and everything else as before. */
const narrow = () => {
  const rules = [rule({ container: '/pci/', transform: 'mask' }), rule({ priority: 2 })];
  return manager.expect(200, 'PUT', reader.path, { body: { name: 'a', rules } });
};

const makeReactor = (code: string, application: Caller): Promise<string> =>
  vault.makeFunction(code, { application });

const invocation = (reactorId: string, args: object) =>
  repeatable(caller.client, 'POST', `/reactors/${reactorId}/react`, { args });

/** The answer to a run that its time limit did not end: on a busy machine a thousand tokens may take longer. */
const answerInTime = (reactorId: string, args: object) =>
  waitUntil(
    async () => {
      const answer = await invocation(reactorId, args)();
      return !answer.text.includes('exceeded its time limit') && answer;
    },
    { timeoutMs: 400_000, what: 'a run within its time limit' },
  );

/** As many tokens as the record of a run names. */
const readingThousand = `const pages = Array.from({ length: 10 }, (_, index) => index + 1);
  await Promise.all(pages.map((page) => svc.tokens.list({ size: 100, page, metadata: { lot: args.lot } })));
  return {};`;
const reading = 'return { raw: await svc.tokens.retrieve(args.id) };';
const readingMany = readingThousand.replace('return {};', reading);
const tellingError = 'catch (error) { return { raw: [error.status, error.problem.detail] }; }';
const lot = randomUUID();

beforeAll(async () => {
  caller = await makeApplication({ permissions: ['token:use'] });
  outside = await makeApplication({ permissions: ['token:use'] });
  const maker = await makeApplication({ rules: [rule()] });
  const tokens = Array.from({ length: 1_000 }, (_, index) => ({
    type: 'token',
    data: `data ${index}`,
    containers: ['/many/'],
    metadata: { lot },
  }));
  await maker.client.expect(200, 'POST', '/tokens/batch', { body: { tokens } });
});
beforeEach(async () => {
  reader = await makeApplication({ rules: [rule()] });
  const body = { ...cardToken(number), containers: ['/pci/'] };
  cardId = (await reader.client.expect<Token>(201, 'POST', '/tokens', { body })).body.id;
});

describe('the repeat of a run that was shown a card by another run', () => {
  it('is refused as well when the other run failed and its error told of the card', async () => {
    const throwing =
      'const card = await svc.tokens.retrieve(args.id); throw new Error(`card ${card.data.number}`);';
    const inner = await makeReactor(throwing, reader);
    const code = `try { await svc.reactors.react('${inner}', { args }); return {}; }
      catch (error) { return { raw: error.problem }; }`;
    const send = invocation(await makeReactor(code, outside), { id: cardId });
    expect((await send()).text).toContain(number);
    await narrow();
    const refused = await send();
    expect([refused.status, refused.text.includes(number)]).toEqual([403, false]);
  });
});

describe('code that asks for more tokens than the record of a run names', () => {
  const expected = [409, expect.stringContaining('at most 1,000 tokens')];

  it('is not given the answer', async () => {
    const id = await makeReactor(`try { ${readingMany} } ${tellingError}`, reader);
    const answer = await answerInTime(id, { id: cardId, lot });
    expect([answer.status, answer.body]).toEqual([200, { raw: expected }]);
  });

  it('does not get the result of another run with tokens that the other run was shown', async () => {
    const inner = await makeReactor(reading, reader);
    const many = await makeReactor(readingThousand, reader);
    const react = (id: string) => `await svc.reactors.react('${id}', { args })`;
    const code = `try { ${react(many)}; return { raw: ${react(inner)} }; } ${tellingError}`;
    const answer = await answerInTime(await makeReactor(code, outside), { id: cardId, lot });
    expect([answer.status, answer.body]).toEqual([200, { raw: expected }]);
  });
});
