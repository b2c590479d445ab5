import { randomUUID } from 'node:crypto';
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
/** Reactors, by the names that code of the proxies knows. */
let reactors: Readonly<Record<string, string>>;
/** The application of the proxies. */
let reader: Caller;

const application = (permissions: readonly string[]) => vault.makeApplication({ permissions });

beforeAll(async () => {
  owner = (await application(['token:create', 'token:update', 'token:delete'])).client;
  caller = await application(['token:use']);
  reader = await vault.makeApplication({ rules: [rule()], permissions: ['token:delete'] });
  await vault.setTenant({ proxy_destinations: destination.url });
  const make = (code: string) => vault.makeFunction(code, { application: reader });
  reactors = {
    READING: await make('return { raw: { value: (await svc.tokens.retrieve(args.id)).data } };'),
    ECHOING: await make('return { raw: { value: args.value } };'),
    FAILING: await make('throw new Error(JSON.stringify(args.value));'),
    TOKENIZING: await make(
      "return { tokenize: { type: 'card', data: args.data, deduplicate_token: true } };",
    ),
  };
});

/** Requests that the destination does not answer, or not to the end. They last for half a minute, beside the other tests. */
const unanswered: Promise<unknown>[] = [];
const traceOf = (path: string) => `unanswered-${path}`;

beforeAll(async () => {
  destination.answer = ({ url }, response) => void (url === '/stops' && response.write('begun'));
  for (const path of ['silent', 'stops']) {
    const headers = { 'SVC-PROXY-URL': `${destination.url}/${path}`, 'SVC-TRACE-ID': traceOf(path) };
    const asked = caller.client.request('GET', '/proxy', { headers });
    unanswered.push(
      asked.then(
        ({ status, body }) => [status, (body as { type: string }).type],
        () => 'cut',
      ),
    );
  }
  await waitUntil(() => destination.arrived.length === 2, { what: 'the requests' });
});

/** Lets the held request of the code, or of the proxy, go on. */
let release: (() => void) | undefined;
const forget = () => {
  release = undefined;
};
beforeEach(() => {
  forget();
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
  const configuration = { ...reactors, ID: tokenId, NUMBER: number, URL: destination.url };
  const whole = { name: 'p', destination: destination.url, application: { id: reader.id }, configuration };
  const body = { ...whole, ...parts };
  const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
  const { status, text } = await caller.client.request('POST', `/proxies/${id}/invoke/${path}`, { body: {} });
  return { status, hasData: text.includes(number) };
}

/** Each of `meanwhile` is done while the exchange waits the next time: the last one when the code has read the token, and before the answer. */
async function answerAfter(
  exchange: Exchange,
  tokenId: string,
  ...meanwhile: readonly (() => Promise<unknown>)[]
) {
  forget();
  const answer = invoke(exchange, tokenId);
  for (const step of meanwhile) {
    await waitUntil(() => release !== undefined, { what: 'the held request' });
    await step();
    const goOn = release;
    forget();
    goOn?.();
  }
  return answer;
}

const deleted = (id: string) => owner.expect(204, 'DELETE', `/tokens/${id}`);
/** Another token gets the id. */
const madeAgain = async (id: string) => {
  await deleted(id);
  await owner.expect(201, 'POST', '/tokens', { body: { ...cardToken(), id } });
};
/** A card whose number can be searched. */
const makeIndexed = async () => {
  const body = cardToken(number, { search_indexes: ['{{ data.number }}'] });
  return (await owner.expect<Token>(201, 'POST', '/tokens', { body })).body.id;
};

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
    const answer = await answerAfter(exchange, id, () => madeAgain(id));
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

interface Giving {
  /** How the code of a proxy gets `value`: data of the token, or what tells of it. */
  readonly code: string;
  /** Whether it is the data. */
  readonly isData: boolean;
}

const ask = (reactor: string, args: string): string =>
  `await svc.reactors.react(configuration.${reactor}, { args: { ${args} } })`;
const named = `value: '{{ ' + configuration.ID + ' }}'`;

/** Code is given tokens by each of these entrances. */
const givings: Readonly<Record<string, Giving>> = {
  'reads it': { code: `const value = (await svc.tokens.retrieve(configuration.ID)).data;`, isData: true },
  'names it in an expression': {
    code: `const { value } = (await svc.detokenize({ ${named} })).data;`,
    isData: true,
  },
  'asks for a run that reads it': {
    code: `const { value } = (${ask('READING', 'id: configuration.ID')}).raw;`,
    isData: true,
  },
  'gives it to a run as an argument': {
    code: `const { value } = (${ask('ECHOING', named)}).raw;`,
    isData: true,
  },
  'gives it to a run that tells it by its error': {
    code: `let value;
      try { ${ask('FAILING', named)}; } catch (error) { value = JSON.stringify(error.problem); }`,
    isData: true,
  },
  'counts the tokens with its data': {
    code: `const found = await svc.tokens.search({ query: 'data:' + configuration.NUMBER, size: 0 });
      const value = found.pagination;`,
    isData: false,
  },
};

describe.each(Object.entries(givings))('an answer of code that %s', (_how, { code, isData }) => {
  const remove = 'await svc.tokens.delete(configuration.ID);';
  const exchange = (...more: readonly string[]) => ({
    parts: responseBy(code, wait, ...more, 'return { raw: { body: { value } } };'),
    path: 'x',
  });

  it('is given while the token is there, and when the code deletes it', async () => {
    for (const more of [[], [remove]]) {
      const id = await makeIndexed();
      const answer = await answerAfter(exchange(...more), id, async () => undefined);
      expect(answer).toEqual({ status: 200, hasData: isData });
    }
  });

  it('is withheld when another token has its id by then, also when the code deletes that one', async () => {
    for (const more of [[], [remove]]) {
      const id = await makeIndexed();
      const answer = await answerAfter(exchange(...more), id, () => madeAgain(id));
      expect(answer).toEqual({ status: 409, hasData: false });
    }
  });
});

describe.each(Object.entries(givings))('a request whose code %s', (_how, { code }) => {
  const request = { code: functionOf([code, wait, 'return { raw: { body: { value } } };'].join('\n')) };
  it('does not leave when another token has its id by then', async () => {
    const exchange = { parts: { request }, path: 'x' };
    const sent = await answerAfter(exchange, await makeIndexed(), async () => undefined);
    expect(sent.status).toBe(200);
    const id = await makeIndexed();
    const refused = await answerAfter(exchange, id, () => madeAgain(id));
    expect(refused.status).toBe(409);
  });
});

it('an answer of code that has read a token is withheld when it is deleted, though a run that the code asked for gave it as a duplicate', async () => {
  const body = { ...cardToken(), deduplicate_token: true };
  const { id } = (await owner.expect<Token>(201, 'POST', '/tokens', { body })).body;
  const duplicate = `const { tokens } = ${ask('TOKENIZING', 'data: token.data')};
    if (tokens.id !== configuration.ID) throw new Error('no duplicate');`;
  const exchange = { parts: responseBy(read, duplicate, wait, give), path: 'x' };
  expect((await answerAfter(exchange, id, async () => undefined)).status).toBe(200);
  expect((await answerAfter(exchange, id, () => deleted(id))).status).toBe(409);
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

describe.each(['response', 'request'])('what the code of a %s gives of a token that it has made', (part) => {
  const make = `await svc.tokens.create({ id: configuration.ID, type: 'token', data: { other: true } });`;
  const exchange = (...steps: readonly string[]) => ({
    parts: { [part]: { code: functionOf([make, ...steps].join('\n')) } },
    path: 'x',
  });
  const newId = () => `made-${randomUUID()}`;
  /** Another puts data into it. */
  const filled = (id: string) => owner.expect(200, 'PATCH', `/tokens/${id}`, { body: { data: { number } } });

  it('is withheld when another has put data into it, and has deleted it after the code has read the data', async () => {
    const id = newId();
    const reading = exchange(wait, read, wait, give);
    const answer = await answerAfter(
      reading,
      id,
      () => filled(id),
      () => deleted(id),
    );
    expect(answer).toEqual({ status: 409, hasData: false });
  });

  it('is given when another has deleted it before the code has read it, and when the code deletes it', async () => {
    const id = newId();
    const giveOther = `return { raw: { body: { other: true } } };`;
    expect((await answerAfter(exchange(wait, giveOther), id, () => deleted(id))).status).toBe(200);
    const remove = 'await svc.tokens.delete(configuration.ID);';
    expect((await invoke(exchange(read, remove, give), newId())).status).toBe(200);
  });
});

// The last test of the file, because the requests began with the first.
it('an answer that does not begin, or stops, is 504 or cut after half a minute, and the log has the time-out', async () => {
  expect(await Promise.all(unanswered)).toEqual([
    [504, 'urn:token-vault:problem:destination-timed-out'],
    'cut',
  ]);
  for (const [path, end] of [
    ['silent', 'Proxy failed: timeout'],
    ['stops', 'Proxy answered 200: timeout'],
  ] as const)
    await waitUntil(
      async () => (await vault.logOf({ trace_id: traceOf(path) })).some(({ message }) => message === end),
      { what: end },
    );
}, 60_000);
