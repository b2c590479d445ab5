import type { Application, LogEntry, Token } from '@token-vault/contracts';
import {
  type Client,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, expect, it } from 'vitest';

interface Opened {
  readonly session_key: string;
  readonly nonce: string;
}
interface Holder {
  readonly client: Client;
  /** The path of the application whose end is that of the holder. */
  readonly path: string;
}

const permissions = ['token:create', 'token:read', 'token:update'];
let dataDir: string;
let manager: Client;
let other: Holder;
beforeAll(async () => {
  dataDir = await createDataDirectory();
  manager = (await startStandaloneProcess({ dataDir })).client();
  other = await application({ type: 'private' });
});
afterAll(() => removeDataDirectory(dataDir));

async function application(body: object): Promise<Holder> {
  const given = { name: 'a', permissions, ...body };
  const { id, key } = (await manager.expect<Application>(201, 'POST', '/applications', { body: given })).body;
  return { client: manager.withKey(key ?? ''), path: `/applications/${id}` };
}

/** `path` is that of the application that opened the session. */
async function session(): Promise<Holder> {
  const opener = await application({ type: 'public', permissions: ['token:create'] });
  const { session_key: key, nonce } = (await opener.client.expect<Opened>(201, 'POST', '/sessions')).body;
  await other.client.expect(200, 'POST', '/sessions/authorize', { body: { nonce, permissions } });
  return { client: manager.withKey(key), path: opener.path };
}

/** Writes a token of another application in a transaction that stays open. */
async function lock({ client }: Holder): Promise<() => Promise<number>> {
  const body = { type: 'token', data: 'x' };
  const { id } = (await other.client.expect<Token>(201, 'POST', '/tokens', { body })).body;
  const transaction = (await client.expect<{ id: string }>(201, 'POST', '/transactions')).body.id;
  const headers = { 'SVC-TRANSACTION-ID': transaction };
  const patch = { body: { metadata: { by: 'the holder' } } };
  await client.expect(200, 'PATCH', `/tokens/${id}`, { headers, ...patch });
  const write = async () => (await other.client.request('PATCH', `/tokens/${id}`, patch)).status;
  expect(await write()).toBe(409);
  return write;
}

it('the locks of a deleted caller end within a minute, and the locks of other callers stay', async () => {
  const [deleted, renewed, kept] = [
    await application({ type: 'private' }),
    await application({ type: 'private' }),
    await application({ type: 'private' }),
  ];
  const ofSession = await session();
  const freed = [await lock(deleted), await lock(renewed), await lock(ofSession)];
  const held = await lock(kept);
  await manager.expect(204, 'DELETE', deleted.path);
  await manager.expect(200, 'POST', `${renewed.path}/regenerate`);
  await manager.expect(200, 'POST', `${ofSession.path}/regenerate`);
  for (const write of freed)
    await waitUntil(async () => (await write()) === 200, { timeoutMs: 60_000, what: 'the end of the lock' });
  expect(await held()).toBe(409);
  const { data } = (
    await manager.expect<{ data: LogEntry[] }>(200, 'GET', '/logs?entity_type=transaction&operation=rollback')
  ).body;
  expect(data.map(({ actor_type: actor }) => actor)).toEqual(['system', 'system', 'system']);
});

it('a transaction cannot be committed after the key that opened it was deleted', async () => {
  const holder = await application({ type: 'private' });
  const made = await manager.expect<{ id: string; key: string }>(201, 'POST', `${holder.path}/keys`, {
    body: {},
  });
  const second = manager.withKey(made.body.key);
  const open = async (client: Client) =>
    (await client.expect<{ id: string }>(201, 'POST', '/transactions')).body.id;
  const [byMain, bySecond] = [await open(holder.client), await open(second)];
  const body = { type: 'token', data: 'x' };
  const headers = { 'SVC-TRANSACTION-ID': bySecond };
  const { id } = (await second.expect<Token>(201, 'POST', '/tokens', { body, headers })).body;
  await manager.expect(204, 'DELETE', `${holder.path}/keys/${made.body.id}`);
  await holder.client.expect(409, 'POST', `/transactions/${bySecond}/commit`);
  await holder.client.expect(404, 'GET', `/tokens/${id}`);
  await holder.client.expect(200, 'POST', `/transactions/${byMain}/commit`);
});
