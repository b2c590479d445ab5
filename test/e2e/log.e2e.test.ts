import type { Application, LogEntry, Reactor, Token } from '@token-vault/contracts';
import { systemActors } from '@token-vault/contracts';
import { cardNumber } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signedIn } from './console-browser.ts';
import { startVault, type Call, type RunningVault } from './running-vault.ts';

let vault: RunningVault;
let backend: Application;
let revealing: Application;
let collecting: Application;

const everyToken = ['token:create', 'token:read', 'token:update', 'token:search', 'token:use'];
const post = <Body = Record<string, unknown>>(status: number, path: string, key: string, body?: object) =>
  vault.must<Body>(status, { method: 'POST', path, key, ...(body && { body }) });
const application = (body: object) =>
  post<Application>(201, '/applications', vault.managementKey, { name: 'a', type: 'private', ...body });
const keyOf = ({ key = '' }: Application): string => key;

const card = (number = cardNumber()) => ({ type: 'card', data: { number } });
const makeCard = async (body: object = card()): Promise<Token> =>
  post<Token>(201, '/tokens', keyOf(backend), body);

/** The log entries that match these filters, oldest first. */
async function entries(filters: Readonly<Record<string, string>>): Promise<LogEntry[]> {
  const path = `/logs?${new URLSearchParams({ size: '100', ...filters }).toString()}`;
  const { data } = await vault.must<{ data: LogEntry[] }>(200, { path, key: vault.managementKey });
  return data.reverse();
}

beforeAll(async () => {
  vault = await startVault();
  backend = await application({ permissions: everyToken });
  const rule = { description: 'r', priority: 1, container: '/pci/', transform: 'reveal' };
  revealing = await application({ rules: [{ ...rule, permissions: ['token:read', 'token:update'] }] });
  collecting = await application({ type: 'public', permissions: ['token:create'] });
});
afterAll(() => vault.stop());

describe('the log of a running vault', () => {
  it('distinguishes a masked read from a revealed one, and finds each by transform, actor and trace', async () => {
    const { id } = await makeCard();
    const read = (key: string, trace: string) =>
      vault.must(200, { path: `/tokens/${id}`, key, headers: { 'SVC-TRACE-ID': trace } });
    await read(keyOf(backend), 'trace-of-a-masked-read');
    await read(keyOf(revealing), 'trace-of-a-revealing-read');
    const shown = { entity_type: 'card', entity_id: id, operation: 'read', request: 'getToken' };
    const masked = { ...shown, transform: 'mask', actor_id: backend.id, trace_id: 'trace-of-a-masked-read' };
    const plain = {
      ...shown,
      transform: 'reveal',
      actor_id: revealing.id,
      trace_id: 'trace-of-a-revealing-read',
    };
    expect(await entries({ entity_id: id, operation: 'read' })).toMatchObject([masked, plain]);
    expect(await entries({ entity_id: id, transform: 'reveal' })).toMatchObject([plain]);
    expect(await entries({ actor_id: revealing.id })).toMatchObject([plain]);
    expect(await entries({ trace_id: 'trace-of-a-masked-read' })).toMatchObject([masked]);
  });

  it('has one entry for a create and one for an update, with the transform of each answer', async () => {
    const { id } = await makeCard();
    const body = { metadata: { a: 'b' } };
    await vault.must(200, { method: 'PATCH', path: `/tokens/${id}`, key: keyOf(revealing), body });
    expect(await entries({ entity_id: id })).toMatchObject([
      { operation: 'create', request: 'createToken' },
      { operation: 'update', transform: 'reveal', request: 'updateToken', actor_id: revealing.id },
    ]);
  });

  it('has entries for lists and searches that found nothing', async () => {
    const call = { key: keyOf(backend), headers: { 'SVC-TRACE-ID': 'trace-of-nothing' } };
    await vault.must(200, { ...call, path: '/tokens?type=employer_id_number' });
    await vault.must(200, { ...call, method: 'POST', path: '/tokens/search', body: { query: 'id:nothing' } });
    const told = await entries({ trace_id: 'trace-of-nothing' });
    expect(told).toMatchObject([
      { entity_type: 'token', operation: 'list', request: 'listTokens' },
      { entity_type: 'token', operation: 'search', request: 'searchTokens' },
    ]);
    for (const entry of told) expect(entry).not.toHaveProperty('entity_id');
  });

  it('has the number of hits when the answer contained only their number', async () => {
    const { id } = await makeCard();
    const call = { key: keyOf(backend), headers: { 'SVC-TRACE-ID': 'trace-of-a-number' } };
    await vault.must(200, { ...call, path: `/tokens?size=0&id=${id}` });
    const body = { query: `id:${id}`, page: 2 };
    await vault.must(200, { ...call, method: 'POST', path: '/tokens/search', body });
    const told = await entries({ trace_id: 'trace-of-a-number' });
    expect(told.map(({ message }) => message)).toEqual([
      'Token list found 1, showed none',
      'Token search found 1, showed none',
    ]);
  });

  it('has an entry for a probe by deduplication, which names the found token', async () => {
    const body = { ...card(), deduplicate_token: true };
    const { id } = await makeCard(body);
    await post(200, '/tokens', keyOf(collecting), body);
    expect(await entries({ entity_id: id, operation: 'read' })).toMatchObject([
      {
        entity_type: 'card',
        transform: 'redact',
        request: 'createToken',
        actor_id: collecting.id,
        message: 'Token met by deduplication',
      },
    ]);
  });

  it('names a token that was found in a denial, by its type', async () => {
    const { id } = await makeCard();
    const elsewhere = await application({
      rules: [
        {
          description: 'r',
          priority: 1,
          container: '/elsewhere/',
          transform: 'reveal',
          permissions: ['token:read', 'token:use'],
        },
      ],
    });
    await vault.must(403, { path: `/tokens/${id}`, key: keyOf(elsewhere) });
    const reactor = await post<Reactor>(201, '/reactors', vault.managementKey, {
      name: 'r',
      configuration: {},
      code: 'module.exports = async () => ({ raw: 1 });',
    });
    const args = { a: `{{ ${id} }}` };
    await post(403, `/reactors/${reactor.id}/react`, keyOf(elsewhere), { args });
    expect(await entries({ entity_id: id, operation: 'denied' })).toMatchObject([
      { entity_type: 'card', request: 'getToken', actor_id: elsewhere.id },
      { entity_type: 'card', request: 'react', actor_id: elsewhere.id },
    ]);
  });

  it('has entries for an invocation, its used tokens by their type, and its outcome', async () => {
    const { id } = await makeCard();
    const { id: reactorId } = await post<Reactor>(201, '/reactors', vault.managementKey, {
      name: 'r',
      configuration: {},
      code: `module.exports = async (req) => { if (req.args.fails) throw new Error('no'); return { raw: 1 }; };`,
    });
    await post(200, `/reactors/${reactorId}/react`, keyOf(backend), { args: { a: `{{ ${id} }}` } });
    await post(500, `/reactors/${reactorId}/react`, keyOf(backend), { args: { fails: true } });
    const byRunner = { actor_type: 'system', actor_id: systemActors['reactor-runner'], operation: 'invoke' };
    expect(await entries({ entity_id: reactorId, request: 'react' })).toMatchObject([
      { operation: 'invoke', message: 'Reactor invoked', actor_id: backend.id },
      { ...byRunner, message: 'Reactor succeeded' },
      { operation: 'invoke', message: 'Reactor invoked', actor_id: backend.id },
      { ...byRunner, message: 'Reactor failed' },
    ]);
    expect(await entries({ entity_id: id, operation: 'use' })).toMatchObject([
      { entity_type: 'card', transform: 'reveal', request: 'react', actor_id: backend.id },
    ]);
  });

  it('names the vault by a UUID when an operator made an entity', async () => {
    const [made] = await entries({ operation: 'create', entity_type: 'application' });
    expect(made).toMatchObject({ actor_type: 'system', actor_id: systemActors.operator });
    const list = await vault.must<{ data: Application[] }>(200, {
      path: `/applications?id=${made?.entity_id ?? ''}`,
      key: vault.managementKey,
    });
    expect(list.data[0]?.created_by).toBe(systemActors.operator);
  });
});

interface Opened {
  readonly session_key: string;
  readonly nonce: string;
}

describe('a session in the log', () => {
  const createsToken = (key: string): Call => ({ method: 'POST', path: '/tokens', key, body: card() });

  it('is named when it fails to authenticate, before it is authorised', async () => {
    const { session_key: key } = await post<Opened>(201, '/sessions', keyOf(collecting));
    await vault.must(401, createsToken(key));
    const opened = (await entries({ entity_type: 'session', operation: 'create' })).at(-1);
    const told = await entries({ operation: 'authenticate' });
    expect(told).toMatchObject([
      {
        entity_type: 'session',
        entity_id: opened?.entity_id,
        actor_type: 'session',
        actor_id: opened?.entity_id,
        request: 'createToken',
      },
    ]);
  });

  it('makes tokens that name the application which authorised it, also in a search', async () => {
    const { session_key: key, nonce } = await post<Opened>(201, '/sessions', keyOf(collecting));
    await post(200, '/sessions/authorize', keyOf(backend), { nonce, permissions: ['token:create'] });
    const token = await vault.must<Token>(201, createsToken(key));
    expect(token.created_by).toBe(backend.id);
    const query = `created_by:${backend.id} AND id:${token.id}`;
    const found = await post<{ data: Token[] }>(200, '/tokens/search', keyOf(backend), { query });
    expect(found.data).toMatchObject([{ id: token.id, created_by: backend.id }]);
    const [created] = await entries({ entity_id: token.id, operation: 'create' });
    expect(created).toMatchObject({ actor_type: 'session' });
    expect(created?.actor_id).not.toBe(backend.id);
  });
});

describe('what a session makes names the application that authorised it', () => {
  type Made = Pick<Token, 'id' | 'created_by'>;
  type Post = (
    status: number,
    path: string,
    body?: object,
    headers?: Record<string, string>,
  ) => Promise<unknown>;
  const code = 'module.exports = async () => ({ tokenize: { made: "secret" } });';
  let reactorId: string;
  let caller: Application;
  beforeAll(async () => {
    const body = { name: 'r', configuration: {}, code };
    reactorId = (await post<Reactor>(201, '/reactors', vault.managementKey, body)).id;
    caller = await application({ permissions: everyToken });
  });

  /** A transaction, and tokens by each operation that makes some. */
  async function madeBy(call: Post): Promise<Made[]> {
    const transaction = (await call(201, '/transactions')) as Made;
    const headers = { 'SVC-TRANSACTION-ID': transaction.id };
    const tokens = [
      await call(201, '/tokens', card(), headers),
      await call(201, '/tokens', card()),
      await call(200, '/tokens/batch', { tokens: [card()] }),
      await call(200, '/tokenize', { one: card() }),
      await call(200, `/reactors/${reactorId}/react`, { args: {} }),
    ];
    await call(200, `/transactions/${transaction.id}/commit`);
    const ids = [...JSON.stringify(tokens).matchAll(/"(?:id|made)":"([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(5);
    const path = `/tokens?${ids.map((id) => `id=${id}`).join('&')}`;
    const { data } = await vault.must<{ data: Token[] }>(200, { path, key: keyOf(backend) });
    return [transaction, ...(tokens.slice(0, 2) as Made[]), ...data];
  }

  it('whether it was opened by a page', async () => {
    const { session_key: key, nonce } = await post<Opened>(201, '/sessions', keyOf(collecting));
    await post(200, '/sessions/authorize', keyOf(caller), { nonce, permissions: everyToken });
    const made = await madeBy((status, path, body, headers = {}) =>
      vault.must(status, { method: 'POST', path, key, headers, ...(body && { body }) }),
    );
    expect(made.map(({ created_by: by }) => by)).toEqual(Array.from({ length: 8 }, () => caller.id));
  });

  it('or at the console, which has one for tokens and one for everything else', async () => {
    const { must } = await signedIn(vault, keyOf(caller));
    const call = <Body = unknown>(status: number, path: string, body?: object, headers = {}) =>
      must<Body>(status, { method: 'POST', path, headers, ...(body && { body }) });
    const made = await madeBy(call);
    expect(made.map(({ created_by: by }) => by)).toEqual(Array.from({ length: 8 }, () => caller.id));
    const others = [
      await call<Made>(201, '/reactors', { name: 'r', configuration: {}, code }),
      await call<Made>(201, '/proxies', { name: 'p', destination: 'https://api.example.com' }),
      await call<Made>(201, '/applications', { name: 'a', type: 'public', permissions: ['token:create'] }),
    ];
    const { data } = await must<{ data: Application[] }>(200, { path: '/applications' });
    const manager = data.find(({ type }) => type === 'management')?.id;
    expect(others.map(({ created_by: by }) => by)).toEqual([manager, manager, manager]);
    for (const [index, kind] of ['reactors', 'proxies', 'applications'].entries()) {
      const read = await must<Made>(200, { path: `/${kind}/${others[index]?.id ?? ''}` });
      expect(read.created_by).toBe(manager);
    }
  });
});
