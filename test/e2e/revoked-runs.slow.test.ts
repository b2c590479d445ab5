import type { Token } from '@token-vault/contracts';
import { type Client, cardToken, waitUntil } from '@token-vault/test-support';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Database, useDatabase } from '../world/database.ts';
import { passDecisionTime, useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { makeSession } from '../world/sessions.ts';
import { useVault } from '../world/vault.ts';
import { startReceiver, type Receiver } from './receiver.ts';

/** The number of asynchronous runs of a tenant at once. */
const places = 3;
const permissions = ['token:create', 'token:read', 'token:use'];

const vault = useVault();
const database = useDatabase(vault);
const { manager } = vault;
/** Requests of code wait there. */
const gate = useReceiver(beforeAll);
const receivers: Receiver[] = [];
afterEach(() => Promise.all(receivers.splice(0).map((each) => each.close())));

async function receiver(): Promise<Receiver> {
  const made = await startReceiver();
  receivers.push(made);
  return made;
}

const makeApplication = (grants: object = { permissions }) => vault.makeApplication(grants);

const makeReactor = async (code: string): Promise<string> =>
  `/reactors/${await vault.makeReactor(code, { configuration: { GATE: gate.url } })}/react`;

const waiting = 'module.exports = async (req) => { await fetch(req.configuration.GATE); return { raw: 1 } };';
const showing = 'module.exports = async (req) => ({ raw: { seen: req.args.card.expiration_year } });';

async function invoke(client: Client, path: string, args: object): Promise<Receiver> {
  const made = await receiver();
  await client.expect(202, 'POST', path, { body: { args, callback_url: made.url } });
  return made;
}

/** Later invocations wait until the gate opens. Where several applications have runs, one alone does not get all places. */
async function takeAllPlaces(client: Client): Promise<void> {
  const { client: other } = await makeApplication();
  const waits = await makeReactor(waiting);
  gate.plan(...Array.from({ length: places }, () => 'hang' as const));
  await Promise.all([client, client, other].map((each) => invoke(each, waits, {})));
  await waitUntil(() => gate.held === places, { what: 'runs that take all places' });
}

async function resultOf({ deliveries }: Receiver): Promise<unknown> {
  await waitUntil(() => deliveries.length > 0, { timeoutMs: 20_000, what: 'the result of a run' });
  return JSON.parse(deliveries[0]?.text ?? '');
}

it('queued runs of a deleted or narrowed application, or of a regenerated key, end as Forbidden and open no token', async () => {
  const [deleted, narrowed, kept] = [
    await makeApplication(),
    await makeApplication(),
    await makeApplication(),
  ];
  const regenerated = await makeApplication();
  const token = (await kept.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
  const shows = await makeReactor(showing);
  await takeAllPlaces(kept.client);

  const args = { card: `{{ ${token.id} }}` };
  const ofDeleted = await invoke(deleted.client, shows, args);
  const ofNarrowed = await invoke(narrowed.client, shows, args);
  const ofRegenerated = await invoke(regenerated.client, shows, args);
  const ofKept = await invoke(kept.client, shows, args);
  await manager.expect(204, 'DELETE', deleted.path);
  await manager.expect(200, 'POST', `${regenerated.path}/regenerate`);
  const elsewhere = [rule({ container: '/x/', permissions: ['token:use'] })];
  await manager.expect(200, 'PUT', narrowed.path, { body: { name: 'narrow', rules: elsewhere } });
  gate.release();

  expect(await resultOf(ofKept)).toEqual({ raw: { seen: 2040 } });
  for (const ended of [ofDeleted, ofNarrowed, ofRegenerated])
    expect(await resultOf(ended)).toMatchObject({ title: 'Forbidden', status: 403, detail: 'Forbidden' });

  const data = await vault.logOf({ entity_id: token.id, operation: 'use' });
  expect(data).toHaveLength(1);
  const denied = await vault.logOf({ operation: 'denied' });
  expect(denied.map(({ entity_type: type, entity_id: id }) => [type, id === token.id])).toEqual(
    expect.arrayContaining([
      ['card', true],
      ['reactor', false],
    ]),
  );
  const { rows } = await database.query<{ count: number }>(
    `select count(*)::int as count from key_ring.data_key where purpose = 'args'`,
  );
  expect(rows[0]?.count).toBe(0);
});

/** A session that may use tokens, authorised by `by`. `path` is that of the application that opened it. */
async function openSession(by: Client, expiresAt: Date): Promise<{ path: string; client: Client }> {
  const page = await makeApplication({ type: 'public', permissions: ['token:create'] });
  const grant = { permissions: ['token:use'], expires_at: expiresAt.toISOString() };
  return { path: page.path, client: await makeSession(page.client, by, grant) };
}

it('queued runs of a session end as Forbidden once it has expired, or one of its applications is deleted or has a new key', async () => {
  const [kept, deleted, renewed] = [
    await makeApplication(),
    await makeApplication(),
    await makeApplication(),
  ];
  const token = (await kept.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
  const shows = await makeReactor(showing);
  await takeAllPlaces(kept.client);

  const [soon, later] = [new Date(Date.now() + 5_000), new Date(Date.now() + 3_600_000)];
  const { client: expiring } = await openSession(kept.client, soon);
  const { client: orphaned } = await openSession(deleted.client, later);
  const { client: authorizedBefore } = await openSession(renewed.client, later);
  const { client: openedBefore, path: opener } = await openSession(kept.client, later);
  const { client: living } = await openSession(kept.client, later);
  const args = { card: `{{ ${token.id} }}` };
  const ofEnded = [];
  for (const each of [expiring, orphaned, authorizedBefore, openedBefore])
    ofEnded.push(await invoke(each, shows, args));
  const ofLiving = await invoke(living, shows, args);
  await manager.expect(204, 'DELETE', deleted.path);
  await manager.expect(200, 'POST', `${renewed.path}/regenerate`);
  await manager.expect(200, 'POST', `${opener}/regenerate`);
  await waitUntil(async () => (await expiring.request('POST', shows, { body: { args } })).status === 401, {
    timeoutMs: 20_000,
    what: 'the end of the session',
  });
  gate.release();

  expect(await resultOf(ofLiving)).toEqual({ raw: { seen: 2040 } });
  for (const ended of ofEnded)
    expect(await resultOf(ended)).toMatchObject({ title: 'Forbidden', status: 403, detail: 'Forbidden' });
});

it('a result for a deleted application is sent again as a refusal', async () => {
  const { path, client } = await makeApplication();
  const token = (await client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
  const shows = await makeReactor('module.exports = async (req) => ({ raw: req.args });');
  const made = await receiver();
  const { url, deliveries } = made;
  made.plan(500);
  const args = { card: `{{ ${token.id} }}` };
  await client.expect(202, 'POST', shows, { body: { args, callback_url: url } });
  await waitUntil(() => deliveries.length === 1, { what: 'the first delivery' });
  expect(JSON.parse(deliveries[0]?.text ?? '')).toMatchObject({ raw: { card: { expiration_year: 2040 } } });
  await manager.expect(204, 'DELETE', path);
  await waitUntil(() => deliveries.length === 2, { timeoutMs: 20_000, what: 'the second delivery' });
  expect(JSON.parse(deliveries[1]?.text ?? '')).toMatchObject({ status: 403, detail: 'Forbidden' });
  expect(deliveries[1]?.text).not.toContain('2040');
});

/** A change of the log by an attacker with the database: the invocation seems to have come after the new key. */
const swapPositions = async (database: Database, applicationId: string): Promise<void> => {
  const { rows } = await database.query<{ id: string; position: string }>(
    `select id, position from event_store.event
      where (type = 'ReactorInvoked' and metadata->'actor'->>'id' = $1)
         or (type = 'ApplicationKeyRegenerated' and data->>'application_id' = $1)`,
    [applicationId],
  );
  const [one, other] = rows;
  if (!one || !other || rows.length !== 2) throw new Error('the events are not there');
  const move = 'update event_store.event set position = $2 where id = $1';
  await database.query('begin');
  await database.query(move, [one.id, String(2n ** 62n)]);
  await database.query(move, [other.id, one.position]);
  await database.query(move, [one.id, other.position]);
  await database.query('commit');
};

it('queued runs of a replaced key open no token, at any place of the log to which an attacker moves them', async () => {
  const [kept, renewed] = [await makeApplication(), await makeApplication()];
  const token = (await kept.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
  const shows = await makeReactor(showing);
  await takeAllPlaces(kept.client);
  const result = await invoke(renewed.client, shows, { card: `{{ ${token.id} }}` });
  await manager.expect(200, 'POST', `${renewed.path}/regenerate`);
  await swapPositions(database, renewed.path.split('/')[2] ?? '');
  gate.release();
  expect(await resultOf(result)).toMatchObject({ status: 403, detail: 'Forbidden' });
});

describe('a synchronous caller that loses its rights while the code runs', () => {
  const deleting = (path: string) => manager.expect(204, 'DELETE', path);
  const regenerating = (path: string) => manager.expect(200, 'POST', `${path}/regenerate`);
  const narrowing = (path: string) =>
    manager.expect(200, 'PUT', path, {
      body: { name: 'narrow', rules: [rule({ container: '/x/', permissions: ['token:use'] })] },
    });
  const moving = async (_path: string, token: string) => {
    const mover = await makeApplication({ rules: [rule({ permissions: ['token:update'] })] });
    const patch = { body: { containers: ['/moved/'] } };
    await mover.client.expect(200, 'PATCH', `/tokens/${token}`, patch);
  };
  /** The rules for the container of this suite's tokens. A token that is moved leaves it. */
  const ownRules = {
    permissions: [],
    rules: [rule({ container: '/general/', permissions: ['token:create', 'token:delete', 'token:use'] })],
  };
  const shown = 'return { raw: req.args };';
  const thrown = 'throw new Error(JSON.stringify(req.args));';
  const custom = `const { CustomHttpResponseError } = require('@token-vault/reactor');
    throw new CustomHttpResponseError({ status: 402, headers: {}, body: req.args });`;

  it.each([
    ['is deleted', 401, shown, deleting],
    ['has its key regenerated', 401, shown, regenerating],
    ['is narrowed', 403, shown, narrowing],
    ['is narrowed, and whose code throws what it saw', 403, thrown, narrowing],
    ['is narrowed, and whose code chose the whole answer', 403, custom, narrowing],
    ['may not use the container that the token is moved to', 403, shown, moving],
  ])('and %s is answered %i and shown nothing', async (_what, status, ends, lose) => {
    const { path, client } = await makeApplication(ownRules);
    const { id } = (
      await client.expect<Token>(201, 'POST', '/tokens', { body: { type: 'token', data: 'CANARY-4242' } })
    ).body;
    const code = `module.exports = async (req) => { await fetch(req.configuration.GATE); ${ends} };`;
    const react = await makeReactor(code);
    gate.plan('hang');
    const answered = client.request('POST', react, { body: { args: { secret: `{{ ${id} }}` } } });
    await waitUntil(() => gate.held === 1, { what: 'the run that waits' });
    const sinceMs = performance.now();
    await lose(path, id);
    await passDecisionTime(sinceMs);
    gate.release();
    const answer = await answered;
    expect(answer.text).not.toContain('CANARY-4242');
    expect(answer.status).toBe(status);
    if (status !== 403) return;
    const denied = await vault.logOf({ operation: 'denied', entity_id: id });
    expect(denied.map(({ request }) => request)).toEqual(['react']);
  });

  it('is answered although a token that its code used is deleted meanwhile, as long as it keeps its rights', async () => {
    const { path, client } = await makeApplication(ownRules);
    const { id } = (
      await client.expect<Token>(201, 'POST', '/tokens', { body: { type: 'token', data: 'CANARY-4242' } })
    ).body;
    const react = await makeReactor(
      'module.exports = async (req) => { await fetch(req.configuration.GATE); return { raw: req.args }; };',
    );
    gate.plan('hang');
    const answered = client.request('POST', react, { body: { args: { secret: `{{ ${id} }}` } } });
    await waitUntil(() => gate.held === 1, { what: 'the run that waits' });
    await client.expect(204, 'DELETE', `/tokens/${id}`);
    // A change of its application that keeps its rights.
    await manager.expect(200, 'PUT', path, { body: { name: 'renamed', ...ownRules } });
    gate.release();
    expect(await answered).toMatchObject({ status: 200, body: { raw: { secret: 'CANARY-4242' } } });
  });
});
