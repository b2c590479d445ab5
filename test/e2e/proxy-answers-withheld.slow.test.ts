import type { Proxy, Token } from '@token-vault/contracts';
import { cardNumber, cardToken, type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useDestination } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, makeCard, useVault } from '../world/vault.ts';

// proxy.md: the answer is withheld when a token has ended that code of the proxy has read (ADR 16).

const number = cardNumber();
const destination = useDestination();
const vault = useVault(() => ({
  env: { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile },
}));
const { manager } = vault;
let owner: Client;
let caller: Caller;
/** The application of the proxies. */
let reader: Caller;

const application = (permissions: readonly string[]) => vault.makeApplication({ permissions });

beforeAll(async () => {
  owner = (await application(['token:create', 'token:delete'])).client;
  caller = await application(['token:use']);
  reader = await vault.makeApplication({ rules: [rule()], permissions: ['token:delete'] });
  await vault.setTenant({ proxy_destinations: destination.url });
});

/** Lets the held request of the code, or of the proxy, go on. */
let release: (() => void) | undefined;
beforeEach(() => {
  release = undefined;
  destination.answer = (request, response) => {
    const answer = () => void response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
    if (request.url === '/held') release = answer;
    else answer();
  };
});

const functionOf = (body: string) => `module.exports = async ({ svc, configuration }) => { ${body} };`;
const read = 'const token = await svc.tokens.retrieve(configuration.ID);';
const wait = `await fetch(configuration.URL + '/held');`;
const give = 'return { raw: { body: token.data } };';
const fail = `const { CustomHttpResponseError } = require('@token-vault/reactor');
  throw new CustomHttpResponseError({ status: 200, body: token.data });`;
const responseBy = (...steps: readonly string[]) => ({ response: { code: functionOf(steps.join('\n')) } });

interface Exchange {
  readonly parts: object;
  readonly path: string;
}

/** How data of the token gets into the answer, and what the exchange waits for. */
const exchanges: Readonly<Record<string, Exchange>> = {
  'code of the response gives': { parts: responseBy(read, wait, give), path: 'x' },
  'an error of its code gives': { parts: responseBy(read, wait, fail), path: 'x' },
  'the destination was sent': { parts: { request: { code: functionOf(`${read} ${give}`) } }, path: 'held' },
};

/** The answer to a request through a proxy whose code reads the token. */
async function invoke({ parts, path }: Exchange, tokenId: string) {
  const configuration = { ID: tokenId, URL: destination.url };
  const whole = { name: 'p', destination: destination.url, application: { id: reader.id }, configuration };
  const body = { ...whole, ...parts };
  const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
  const { status, text } = await caller.client.request('POST', `/proxies/${id}/invoke/${path}`, { body: {} });
  return { status, hasData: text.includes(number) };
}

/** `meanwhile` is done when the code has read the token, and before the answer. */
async function answerAfter(exchange: Exchange, tokenId: string, meanwhile: () => Promise<unknown>) {
  const answer = invoke(exchange, tokenId);
  await waitUntil(() => release !== undefined, { what: 'the held request' });
  await meanwhile();
  release?.();
  return answer;
}

const deleted = (id: string) => owner.expect(204, 'DELETE', `/tokens/${id}`);

describe.each(Object.entries(exchanges))('an answer, when %s a token,', (_how, exchange) => {
  it('is given while the token is there', async () => {
    const answer = await answerAfter(exchange, await makeCard(owner, number), async () => undefined);
    expect(answer).toEqual({ status: 200, hasData: exchange.path === 'x' });
  });

  it('is withheld once the token is deleted', async () => {
    const id = await makeCard(owner, number);
    const answer = await answerAfter(exchange, id, () => deleted(id));
    expect(answer).toEqual({ status: 409, hasData: false });
  });

  it('is withheld once the token is deleted and its id is taken', async () => {
    const id = await makeCard(owner, number);
    const answer = await answerAfter(exchange, id, async () => {
      await deleted(id);
      await owner.expect(201, 'POST', '/tokens', { body: { ...cardToken(), id } });
    });
    expect(answer).toEqual({ status: 409, hasData: false });
  });

  it('is withheld once the token has expired', async () => {
    const expires_at = new Date(Date.now() + 5_000).toISOString();
    const body = { ...cardToken(number), expires_at };
    const { id } = (await owner.expect<Token>(201, 'POST', '/tokens', { body })).body;
    const hasExpired = () => Date.parse(expires_at) < Date.now() - 100;
    const answer = await answerAfter(exchange, id, () =>
      waitUntil(hasExpired, { what: 'the end of the token' }),
    );
    expect(answer).toEqual({ status: 409, hasData: false });
  });
});

describe('an answer of code that has read a token', () => {
  it.each([
    'await svc.tokens.delete(configuration.ID);',
    'await svc.tokens.deleteMany({ ids: [configuration.ID] });',
  ])('is given when the code has deleted the token itself: %s', async (remove) => {
    const exchange = { parts: responseBy(read, remove, give), path: 'x' };
    expect(await invoke(exchange, await makeCard(owner, number))).toEqual({ status: 200, hasData: true });
  });

  it('is withheld when another has deleted it, though the code has made and deleted a token of its id', async () => {
    const again = `await svc.tokens.create({ id: configuration.ID, type: 'token', data: 'other' });
      await svc.tokens.delete(configuration.ID);`;
    const id = await makeCard(owner, number);
    const exchange = { parts: responseBy(read, wait, again, give), path: 'x' };
    const answer = await answerAfter(exchange, id, () => deleted(id));
    expect(answer).toEqual({ status: 409, hasData: false });
  });
});
