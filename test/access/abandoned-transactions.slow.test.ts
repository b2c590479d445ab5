import type { Token } from '@token-vault/contracts';
import { type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, expect, it } from 'vitest';
import { makeSession } from '../world/sessions.ts';
import { type Caller, useVault } from '../world/vault.ts';

/** `path` is that of the application whose end is that of the holder. */
type Holder = Pick<Caller, 'client' | 'path'>;

const permissions = ['token:create', 'token:read', 'token:update'];
const vault = useVault({});
const { manager } = vault;
let other: Caller;
beforeAll(async () => {
  other = await application();
});

const application = (body: object = {}): Promise<Caller> => vault.makeApplication({ permissions, ...body });

/** `path` is that of the application that opened the session. */
async function session(): Promise<Holder> {
  const opener = await application({ type: 'public', permissions: ['token:create'] });
  return { client: await makeSession(opener.client, other.client, { permissions }), path: opener.path };
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
  const [deleted, renewed, kept] = [await application(), await application(), await application()];
  const ofSession = await session();
  const freed = [await lock(deleted), await lock(renewed), await lock(ofSession)];
  const held = await lock(kept);
  await manager.expect(204, 'DELETE', deleted.path);
  await manager.expect(200, 'POST', `${renewed.path}/regenerate`);
  await manager.expect(200, 'POST', `${ofSession.path}/regenerate`);
  for (const write of freed)
    await waitUntil(async () => (await write()) === 200, { timeoutMs: 60_000, what: 'the end of the lock' });
  expect(await held()).toBe(409);
  const data = await vault.logOf({ entity_type: 'transaction', operation: 'rollback' });
  expect(data.map(({ actor_type: actor }) => actor)).toEqual(['system', 'system', 'system']);
});

it('a transaction cannot be committed after the key that opened it was deleted', async () => {
  const holder = await application();
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
