import { randomUUID } from 'node:crypto';
import type { Application, Token } from '@token-vault/contracts';
import type { Client } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { makeSession, openSession } from '../world/sessions.ts';
import { type Caller, useVault } from '../world/vault.ts';

/** The application whose key is regenerated. */
type Side = 'opener' | 'authorizer';
const sides: readonly Side[] = ['opener', 'authorizer'];

const permissions = ['token:create', 'token:read', 'token:use'];

const receiver = useReceiver(beforeAll);
const vault = useVault();
const { manager, makeApplication } = vault;
let applications: Record<Side, Caller>;
let session: Client;
let token: Token;

beforeAll(() => vault.setTenant({ proxy_destinations: new URL(receiver.url).origin }));

const sessionOf = ({ opener, authorizer } = applications): Promise<Client> =>
  makeSession(opener.client, authorizer.client, { permissions });

/** Takes the key away. The application has a new one. */
async function regenerate(side: Side): Promise<Pick<Caller, 'client'>> {
  const path = `${applications[side].path}/regenerate`;
  const { key } = (await manager.expect<Application>(200, 'POST', path)).body;
  return { client: manager.withKey(key ?? '') };
}

beforeEach(async () => {
  applications = {
    opener: await makeApplication({ type: 'public', permissions: ['token:create'] }),
    authorizer: await makeApplication({ permissions }),
  };
  session = await sessionOf();
  const body = { type: 'token', data: 'CANARY-77' };
  token = (await applications.authorizer.client.expect<Token>(201, 'POST', '/tokens', { body })).body;
});

describe.each(sides)('a session, once the key of its %s is regenerated', (side) => {
  it('is refused at its next request, and the log names the session', async () => {
    await session.expect(200, 'GET', `/tokens/${token.id}`);
    await regenerate(side);
    await session.expect(401, 'GET', `/tokens/${token.id}`);
    const data = await vault.logOf({ operation: 'authenticate' });
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
    const other = await sessionOf({ ...applications, [side]: renewed });
    await other.expect(200, 'GET', `/tokens/${token.id}`);
    await session.expect(401, 'GET', `/tokens/${token.id}`);
  });

  it('cannot send requests by the code of a reactor', async () => {
    const code = 'module.exports = async (req) => ({ raw: req.args });';
    const id = await vault.makeReactor(code);
    const ask = { body: { args: { secret: `{{ ${token.id} }}` } } };
    await session.expect(200, 'POST', `/reactors/${id}/react`, ask);
    await regenerate(side);
    await session.expect(401, 'POST', `/reactors/${id}/react`, ask);
  });

  it('gets no error of the vault while the key is regenerated under load', async () => {
    const sessions = [session, ...(await Promise.all(Array.from({ length: 7 }, () => sessionOf())))];
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
  const { nonce, client } = await openSession(opener.client);
  await regenerate('opener');
  await authorizer.client.request('POST', '/sessions/authorize', { body: { nonce, permissions } });
  await client.expect(401, 'GET', `/tokens/${token.id}`);
});
