import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Application } from '@token-vault/contracts';
import { nginxBinary, startGateway } from '@token-vault/deploy/running-gateway';
import {
  cardToken,
  type Client,
  createClient,
  createDataDirectory,
  plainApplication,
  processSettingsOf,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { shownBy } from '../e2e/console-browser.ts';

/** A revoked key is refused on every replica within this time. */
const revokedWithinMs = 1_000;

let dataDir: string;
let vault: StandaloneProcess;
let replicas: readonly { readonly name: string; readonly port: number; readonly pid: number }[];

const replica = (name: string, key: string): Client => {
  const found = replicas.find((each) => each.name === name);
  return createClient(`http://127.0.0.1:${found?.port ?? 0}`, key);
};

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, stack: 'processes' });
  replicas = JSON.parse(await readFile(path.join(dataDir, 'stack.json'), 'utf8')) as typeof replicas;
});
afterAll(() => removeDataDirectory(dataDir));

describe('a key that is revoked at one replica', () => {
  const readers = ['query-service 1', 'query-service 2'];
  const managementKey = () => vault.credentials.management_key;
  const makeApplication = async () => {
    const made = await vault
      .client()
      .expect<Application>(201, 'POST', '/applications', { body: plainApplication() });
    return { id: made.body.id, key: made.body.key ?? '' };
  };
  /** Every replica has the caller of the key in its cache. */
  const warm = async (key: string) => {
    for (const name of readers) await replica(name, key).expect(200, 'GET', '/tokens?size=1');
    for (const number of [1, 2])
      await replica(`command-service ${number}`, key).expect(201, 'POST', '/tokens', { body: cardToken() });
  };

  it.each([
    ['deleted', (id: string) => ['DELETE', `/applications/${id}`, 204] as const],
    ['regenerated', (id: string) => ['POST', `/applications/${id}/regenerate`, 200] as const],
  ])('by being %s is refused there at once, and everywhere within a second', async (_how, request) => {
    for (let round = 0; round < 10; round += 1) {
      const { id, key } = await makeApplication();
      await warm(key);
      const [method, at, status] = request(id);
      await replica('command-service 1', managementKey()).expect(status, method, at);
      const revokedMs = performance.now();
      await replica('command-service 1', key).expect(401, 'POST', '/tokens', { body: cardToken() });
      for (const name of [...readers, 'command-service 2']) {
        const client = replica(name, key);
        const ask = () =>
          name.startsWith('query')
            ? client.request('GET', '/tokens?size=1')
            : client.request('POST', '/tokens', { body: cardToken() });
        await waitUntil(async () => (await ask()).status === 401, {
          timeoutMs: revokedWithinMs,
          what: `the refusal by ${name}`,
        });
      }
      expect(performance.now() - revokedMs).toBeLessThan(2 * revokedWithinMs);
    }
  });
});

describe('a stopped process while a key is revoked at another one', () => {
  it.each([
    ['query-service 1', (client: Client) => client.request('GET', '/tokens?size=1'), 200],
    ['command-service 2', (client: Client) => client.request('POST', '/tokens', { body: cardToken() }), 201],
  ] as const)('refuses it with its first answer afterwards: %s', async (name, ask, before) => {
    const pid = replicas.find((each) => each.name === name)?.pid ?? 0;
    for (let round = 0; round < 5; round += 1) {
      const body = plainApplication();
      const made = await vault.client().expect<Application>(201, 'POST', '/applications', { body });
      const client = replica(name, made.body.key ?? '');
      expect((await ask(client)).status).toBe(before);
      process.kill(pid, 'SIGSTOP');
      // The stopped replica has this request and the cached caller.
      const asked = ask(client);
      try {
        await replica('command-service 1', vault.credentials.management_key).expect(
          204,
          'DELETE',
          `/applications/${made.body.id}`,
        );
      } finally {
        process.kill(pid, 'SIGCONT');
      }
      expect((await asked).status).toBe(401);
      expect((await ask(client)).status).toBe(401);
    }
  });
});

it.skipIf(process.platform !== 'linux')(
  'each process has its memory excluded from core dumps, and a higher priority than its background threads',
  () => {
    const ours = replicas.filter(({ name }) => name !== 'postgres');
    // Two of each service, and the router.
    expect(ours).toHaveLength(11);
    for (const { pid } of ours) {
      const { coredumpFilter, priority, backgroundPriorities } = processSettingsOf(pid);
      expect(coredumpFilter).toBe('00000000');
      expect(new Set(backgroundPriorities)).toEqual(new Set([Math.min(19, priority + 10)]));
    }
  },
);

describe('replicas of one service', () => {
  it('answer the same idempotent request once', async () => {
    const { body: made } = await vault
      .client()
      .expect<Application>(201, 'POST', '/applications', { body: plainApplication() });
    const headers = { 'SVC-IDEMPOTENCY-KEY': 'across replicas' };
    const body = cardToken();
    const send = (number: number) =>
      replica(`command-service ${number}`, made.key ?? '').request<{ id: string }>('POST', '/tokens', {
        headers,
        body,
      });
    const first = await send(1);
    const second = await send(2);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body.id).toBe(first.body.id);
  });
});

it('guesses at all replicas at the same time are limited together', async () => {
  const manager = vault.client();
  const settings = { data_misses_per_minute: '7' };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'limited', settings } });
  const body = plainApplication();
  const key = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body.key ?? '';
  const guesses = Array.from({ length: 40 }, (_, n) =>
    replica(`query-service ${(n % 2) + 1}`, key).request('POST', '/tokens/search', {
      body: { query: `data:guess${n}` },
    }),
  );
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(7);
  expect(statuses.filter((status) => status === 429)).toHaveLength(33);
  const probe = { ...cardToken(), deduplicate_token: true };
  await replica('command-service 1', key).expect(429, 'POST', '/tokens', { body: probe });
});

describe('a session of the console', () => {
  const byCookie = (cookie: string, base: string, method: string, at: string, body?: object) =>
    fetch(base + at, {
      method,
      headers: {
        Cookie: cookie,
        Origin: base,
        ...shownBy(cookie),
        ...(body && { 'Content-Type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });

  async function signIn(base: string): Promise<string> {
    const headers = { 'SVC-API-KEY': vault.credentials.management_key };
    const answer = await fetch(`${base}/console/session`, { method: 'POST', headers });
    expect(answer.status).toBe(201);
    return answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  }

  const services = ['command-service 1', 'command-service 2', 'query-service 1', 'query-service 2'];
  const addressOf = (name: string) =>
    `http://127.0.0.1:${replicas.find((each) => each.name === name)?.port ?? 0}`;
  /** How each replica answers the cookie. */
  const statuses = (cookie: string) =>
    Promise.all(
      services.map(async (name) => {
        const at = name.startsWith('query') ? '/logs?size=1' : '/console/session';
        return (await byCookie(cookie, addressOf(name), 'GET', at)).status;
      }),
    );

  /** The router of the stack, and a real nginx in front of the same replicas where one is installed. */
  async function gateways(): Promise<readonly string[]> {
    if (nginxBinary === undefined) return [vault.url];
    const serversOf = (service: string) =>
      replicas.filter(({ name }) => name.startsWith(service)).map(({ port }) => `127.0.0.1:${port}`);
    const nginx = await startGateway({
      commandServers: serversOf('command-service'),
      queryServers: serversOf('query-service'),
      proxyServers: serversOf('proxy '),
    });
    onTestFinished(() => nginx.stop());
    return [vault.url, `http://localhost:${nginx.port}`];
  }

  it('is the same on every replica, by the router and by nginx, survives a killed process, and ends everywhere at once', async () => {
    const fronts = await gateways();
    for (const base of fronts) {
      expect((await fetch(`${base}/console/`)).headers.get('content-security-policy')).toContain("'none'");
      const cookie = await signIn(base);
      for (let round = 0; round < 3; round += 1) {
        const name = { name: `by ${base}` };
        expect((await byCookie(cookie, base, 'PUT', '/tenants/self', name)).status).toBe(200);
        expect(await (await byCookie(cookie, base, 'GET', '/tenants/self')).json()).toMatchObject(name);
        expect((await byCookie(cookie, base, 'GET', '/console/session')).status).toBe(200);
      }
      expect(await statuses(cookie)).toEqual([200, 200, 200, 200]);
      const foreign = await fetch(`${base}/tenants/self`, {
        method: 'PUT',
        headers: {
          Cookie: cookie,
          Origin: 'http://localhost:1',
          ...shownBy(cookie),
          'Content-Type': 'application/json',
        },
        body: '{"name":"forged"}',
      });
      expect(foreign.status).toBe(403);
      // Any process of the vault may take the request that ends it.
      expect((await byCookie(cookie, fronts[0] ?? base, 'DELETE', '/console/session')).status).toBe(204);
      expect(await statuses(cookie)).toEqual([401, 401, 401, 401]);
    }

    const cookie = await signIn(vault.url);
    const name = 'command-service 1';
    const before = replicas.find((each) => each.name === name)?.pid ?? 0;
    process.kill(before, 'SIGKILL');
    const isBack = async () => {
      const listed = await readFile(path.join(dataDir, 'stack.json'), 'utf8');
      const { pid } = (JSON.parse(listed) as typeof replicas).find((each) => each.name === name) ?? {};
      const ready = () => fetch(`${addressOf(name)}/health/ready`).catch(() => undefined);
      return pid !== before && (await ready())?.status === 200;
    };
    await waitUntil(isBack, { what: 'the process after the killed one', timeoutMs: 60_000 });
    expect(await statuses(cookie)).toEqual([200, 200, 200, 200]);
  });
});
