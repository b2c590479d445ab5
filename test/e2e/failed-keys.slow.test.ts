import { randomUUID } from 'node:crypto';
import type { Application } from '@token-vault/contracts';
import type { Client } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openSession } from '../world/sessions.ts';
import { type Caller, useVault } from '../world/vault.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const vault = useVault();
const permissions = ['token:create', 'token:read'];
let backend: Caller;
let page: Caller;

const read = async (client: Client) => (await client.request('GET', '/tokens')).status;
const create = async (client: Client) =>
  (await client.request('POST', '/tokens', { body: { type: 'token', data: 'x' } })).status;

const sendBadKeys = () =>
  Promise.all(Array.from({ length: 50 }, () => read(vault.manager.withKey(`key_pvt_wrong_${randomUUID()}`))));

/** Sends bad keys until the address of the tests has had so many failures in a minute that more are 429. */
async function flood(): Promise<void> {
  for (let sent = 0; sent < 700; sent += 50) if ((await sendBadKeys()).includes(429)) return;
  throw new Error('700 failures in a minute are not limited');
}

beforeAll(async () => {
  backend = await vault.makeApplication({ permissions });
  page = await vault.makeApplication({ type: 'public', permissions: ['token:create'] });
});
beforeEach(() => flood());

describe('behind an address with more than 600 failed authentications in a minute', () => {
  it('the key of a new session and of a new application are accepted', async () => {
    const session = await openSession(page.client);
    const body = { nonce: session.nonce, permissions: ['token:create'] };
    await backend.client.expect(200, 'POST', '/sessions/authorize', { body });
    expect(await create(session.client)).toBe(201);
    const { client } = await vault.makeApplication({ permissions });
    expect(await read(client)).toBe(200);
    expect(await read(client.withKey('key_pvt_wrong'))).toBe(429);
  });

  it('a new key is accepted beside a worker that goes on with the key which it replaced', async () => {
    const old = await vault.makeApplication({ permissions });
    expect(await read(old.client)).toBe(200);
    const path = `${old.path}/regenerate`;
    const { key = '' } = (await vault.manager.expect<Application>(200, 'POST', path)).body;
    const worker = Array.from({ length: 100 }, () => read(old.client));
    expect(await read(old.client.withKey(key))).toBe(200);
    expect(new Set(await Promise.all(worker))).toEqual(new Set([429]));
    expect(await read(old.client.withKey(key))).toBe(200);
  });

  it('keys are accepted by a process that has just started and is sent bad ones', async () => {
    await vault.process().stop();
    await vault.start();
    await flood();
    const more = sendBadKeys();
    // The process has not seen these keys before.
    expect(await Promise.all([read(backend.client), create(page.client)])).toEqual([200, 201]);
    expect(new Set(await more)).toEqual(new Set([429]));
  });
});
