import { randomUUID } from 'node:crypto';
import type { Application, Reactor, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

const number = cardNumber();
const permissions = ['token:create', 'token:read', 'token:use'];
const rule = (changes: object = {}) => ({
  description: 'of the test',
  priority: 1,
  container: '/',
  transform: 'reveal',
  permissions,
  ...changes,
});

let dataDir: string;
let manager: Client;
/** Invokes reactors and has no right to read. */
let caller: Client;
/** The application by whose rights the inner code reads. */
let reader: { readonly id: string; readonly client: Client };
/** The application of the outer reactor: it has no right to read. */
let outside: { readonly id: string };
let cardId: string;

async function makeApplication(grants: object) {
  const body = { name: 'a', type: 'private', ...grants };
  const made = await manager.expect<Application>(201, 'POST', '/applications', { body });
  return { id: made.body.id, client: manager.withKey(made.body.key ?? '') };
}

/** The reader may see cards only masked, and everything else as before. */
const narrow = () => {
  const rules = [rule({ container: '/pci/', transform: 'mask' }), rule({ priority: 2 })];
  return manager.expect(200, 'PUT', `/applications/${reader.id}`, { body: { name: 'a', rules } });
};

async function makeReactor(code: string, application: string): Promise<string> {
  const body = {
    name: 'r',
    configuration: { KEY: 'value' },
    code: `module.exports = async ({ args, svc }) => { ${code} }`,
    application: { id: application },
  };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

function repeatable(reactorId: string, args: object) {
  const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
  return () => caller.request('POST', `/reactors/${reactorId}/react`, { headers, body: { args } });
}

/** As many tokens as the record of a run names. */
const readingThousand = `const pages = Array.from({ length: 10 }, (_, index) => index + 1);
  await Promise.all(pages.map((page) => svc.tokens.list({ size: 100, page, metadata: { lot: args.lot } })));
  return {};`;
const reading = 'return { raw: await svc.tokens.retrieve(args.id) };';
const readingMany = readingThousand.replace('return {};', reading);
const tellingError = 'catch (error) { return { raw: [error.status, error.problem.detail] }; }';
const lot = randomUUID();

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir, env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8' } });
  manager = vault.client();
  caller = (await makeApplication({ permissions: ['token:use'] })).client;
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
afterAll(() => removeDataDirectory(dataDir));
beforeEach(async () => {
  reader = await makeApplication({ rules: [rule()] });
  const body = { ...cardToken(number), containers: ['/pci/'] };
  cardId = (await reader.client.expect<Token>(201, 'POST', '/tokens', { body })).body.id;
});

describe('the repeat of a run that was shown a card by another run', () => {
  it('is refused as well when the other run failed and its error told of the card', async () => {
    const throwing =
      'const card = await svc.tokens.retrieve(args.id); throw new Error(`card ${card.data.number}`);';
    const inner = await makeReactor(throwing, reader.id);
    const code = `try { await svc.reactors.react('${inner}', { args }); return {}; }
      catch (error) { return { raw: error.problem }; }`;
    const send = repeatable(await makeReactor(code, outside.id), { id: cardId });
    expect((await send()).text).toContain(number);
    await narrow();
    const refused = await send();
    expect([refused.status, refused.text.includes(number)]).toEqual([403, false]);
  });
});

describe('code that asks for more tokens than the record of a run names', () => {
  const expected = [409, expect.stringContaining('at most 1,000 tokens')];

  it('is not given the answer', async () => {
    const id = await makeReactor(`try { ${readingMany} } ${tellingError}`, reader.id);
    const answer = await repeatable(id, { id: cardId, lot })();
    expect([answer.status, answer.body]).toEqual([200, { raw: expected }]);
  });

  it('does not get the result of another run with tokens that the other run was shown', async () => {
    const inner = await makeReactor(reading, reader.id);
    const many = await makeReactor(readingThousand, reader.id);
    const react = (id: string) => `await svc.reactors.react('${id}', { args })`;
    const code = `try { ${react(many)}; return { raw: ${react(inner)} }; } ${tellingError}`;
    const answer = await repeatable(await makeReactor(code, outside.id), { id: cardId, lot })();
    expect([answer.status, answer.body]).toEqual([200, { raw: expected }]);
  });
});
