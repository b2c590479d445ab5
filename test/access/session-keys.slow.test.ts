import { randomUUID } from 'node:crypto';
import type { Application, LogEntry, Reactor, Token } from '@token-vault/contracts';
import {
  type Client,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Receiver, startReceiver } from '../e2e/receiver.ts';

interface Made {
  readonly id: string;
  readonly client: Client;
}
interface Opened {
  readonly session_key: string;
  readonly nonce: string;
}
/** The application whose key is regenerated. */
type Side = 'opener' | 'authorizer';
const sides: readonly Side[] = ['opener', 'authorizer'];

const permissions = ['token:create', 'token:read', 'token:use'];

let dataDir: string;
let manager: Client;
let receiver: Receiver;
let applications: Record<Side, Made>;
let session: Client;
let token: Token;

beforeAll(async () => {
  receiver = await startReceiver();
  dataDir = await createDataDirectory();
  const env = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };
  manager = (await startStandaloneProcess({ dataDir, env })).client();
  const settings = { proxy_destinations: new URL(receiver.url).origin };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
});
afterAll(async () => {
  await receiver.close();
  await removeDataDirectory(dataDir);
});

async function makeApplication(body: object): Promise<Made> {
  const made = await manager.expect<Application>(201, 'POST', '/applications', {
    body: { name: 'a', ...body },
  });
  return { id: made.body.id, client: manager.withKey(made.body.key ?? '') };
}

async function openSession({ opener, authorizer } = applications): Promise<Client> {
  const { session_key: key, nonce } = (await opener.client.expect<Opened>(201, 'POST', '/sessions')).body;
  const body = { nonce, permissions };
  await authorizer.client.expect(200, 'POST', '/sessions/authorize', { body });
  return manager.withKey(key);
}

/** Takes the key away. The application has a new one. */
async function regenerate(side: Side): Promise<Made> {
  const path = `/applications/${applications[side].id}/regenerate`;
  const { key } = (await manager.expect<Application>(200, 'POST', path)).body;
  return { ...applications[side], client: manager.withKey(key ?? '') };
}

beforeEach(async () => {
  applications = {
    opener: await makeApplication({ type: 'public', permissions: ['token:create'] }),
    authorizer: await makeApplication({ type: 'private', permissions }),
  };
  session = await openSession();
  const body = { type: 'token', data: 'CANARY-77' };
  token = (await applications.authorizer.client.expect<Token>(201, 'POST', '/tokens', { body })).body;
});

describe.each(sides)('a session, once the key of its %s is regenerated', (side) => {
  it('is refused at its next request, and the log names the session', async () => {
    await session.expect(200, 'GET', `/tokens/${token.id}`);
    await regenerate(side);
    await session.expect(401, 'GET', `/tokens/${token.id}`);
    const { data } = (
      await manager.expect<{ data: LogEntry[] }>(200, 'GET', '/logs?operation=authenticate&size=1')
    ).body;
    expect(data[0]).toMatchObject({ entity_type: 'session', operation: 'authenticate' });
  });

  it('gets no repeat of an answer', async () => {
    const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
    const ask = { headers, body: { type: 'token', data: 'made by the session' } };
    const first = await session.expect<Token>(201, 'POST', '/tokens', ask);
    expect((await session.expect<Token>(201, 'POST', '/tokens', ask)).body.id).toBe(first.body.id);
    await regenerate(side);
    expect((await session.request('POST', '/tokens', ask)).text).not.toContain(first.body.id);
    await session.expect(401, 'POST', '/tokens', ask);
  });

  it('sends nothing through the proxy', async () => {
    const headers = { 'SVC-PROXY-URL': receiver.url };
    const ask = { headers, body: { card: `{{ ${token.id} }}` } };
    expect((await session.request('POST', '/proxy', ask)).status).toBe(204);
    const before = receiver.deliveries.length;
    await regenerate(side);
    await session.expect(401, 'POST', '/proxy', ask);
    expect(receiver.deliveries).toHaveLength(before);
  });

  it('is not brought back by the new key, which opens and authorises other sessions', async () => {
    const renewed = await regenerate(side);
    const other = await openSession({ ...applications, [side]: renewed });
    await other.expect(200, 'GET', `/tokens/${token.id}`);
    await session.expect(401, 'GET', `/tokens/${token.id}`);
  });

  it('cannot send requests by the code of a reactor', async () => {
    const code = 'module.exports = async (req) => ({ raw: req.args });';
    const body = { name: 'r', code, configuration: {} };
    const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body;
    const ask = { body: { args: { secret: `{{ ${token.id} }}` } } };
    await session.expect(200, 'POST', `/reactors/${id}/react`, ask);
    await regenerate(side);
    await session.expect(401, 'POST', `/reactors/${id}/react`, ask);
  });

  it('gets no error of the vault while the key is regenerated under load', async () => {
    const sessions = [session, ...(await Promise.all(Array.from({ length: 7 }, () => openSession())))];
    let isOver = false;
    const statuses: number[] = [];
    const load = sessions.map(async (each) => {
      while (!isOver) statuses.push((await each.request('GET', `/tokens/${token.id}`)).status);
    });
    await regenerate(side);
    const after = await Promise.all(sessions.map((each) => each.request('GET', `/tokens/${token.id}`)));
    isOver = true;
    await Promise.all(load);
    expect(after.map(({ status }) => status)).toEqual(sessions.map(() => 401));
    expect([...new Set(statuses)].filter((status) => status !== 200 && status !== 401)).toEqual([]);
    expect(statuses).toContain(200);
  });
});

it('a nonce that was opened with a key that is gone makes no valid session', async () => {
  const { opener, authorizer } = applications;
  const { session_key: key, nonce } = (await opener.client.expect<Opened>(201, 'POST', '/sessions')).body;
  await regenerate('opener');
  await authorizer.client.request('POST', '/sessions/authorize', { body: { nonce, permissions } });
  await manager.withKey(key).expect(401, 'GET', `/tokens/${token.id}`);
});
