import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventRegistry, EventRegistry, newEvent, TokenDeleted, type Token } from '@token-vault/contracts';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { startProjectors } from '@token-vault/projectors';
import { startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import {
  type Client,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { expect, it, onTestFinished } from 'vitest';

/** An event of the next release. Processes of this release do not know it. */
const nextRelease = new EventRegistry([
  ...eventRegistry.definitions,
  { ...TokenDeleted, type: 'TokenPraised', version: 1, upcasters: [] },
]);

async function startVault() {
  const dataDir = await createDataDirectory();
  onTestFinished(() => removeDataDirectory(dataDir));
  const postgres = await startEmbeddedPostgres({
    dataDir: path.join(dataDir, 'external'),
    settings: { fsync: false, max_connections: 250 },
  });
  onTestFinished(() => postgres.stop());
  const env = { DATABASE_URL: postgres.url, VAULT_RATE_LIMIT_PER_MINUTE: '0' };
  const vault = await startStandaloneProcess({ dataDir, stack: 'processes', env });
  const members = async () =>
    JSON.parse(await readFile(path.join(dataDir, 'stack.json'), 'utf8')) as { name: string; pid: number }[];
  return { vault, members, url: postgres.url };
}

function startNextProjectors(url: string) {
  const connection = { connectionString: url };
  const store = createPostgresEventStore({ connection, registry: nextRelease });
  const projectors = startProjectors({ store, connectionString: url });
  onTestFinished(async () => {
    await projectors.close();
    await store.close();
  });
  return store;
}

/** Creates, reads, lists and deletes until stopped. Gives the unexpected answers. */
function load(client: Client) {
  const end = new AbortController();
  const wrong: string[] = [];
  let done = 0;
  const ask = async (status: number, method: string, at: string, body?: object) => {
    const answer = await client.request<Token>(method, at, body && { body });
    if (answer.status !== status) wrong.push(`${method} ${at}: ${answer.status} ${answer.text}`);
    if (answer.headers.has('svc-consistency')) wrong.push(`${method} ${at}: not yet visible`);
    done += 1;
    return answer.body;
  };
  const life = async () => {
    while (!end.signal.aborted) {
      const { id } = await ask(201, 'POST', '/tokens', { type: 'token', data: randomUUID() });
      await ask(200, 'GET', `/tokens/${id}`);
      await ask(200, 'GET', '/tokens?size=1');
      await ask(204, 'DELETE', `/tokens/${id}`);
    }
  };
  const lives = Promise.all(Array.from({ length: 4 }, life));
  return {
    wrong,
    done: () => done,
    stop: async () => {
      end.abort();
      await lives;
    },
  };
}

it('a release whose projectors are replaced first loses no request when its first new events come', async () => {
  const { vault, members, url } = await startVault();
  const manager = vault.client();
  const body = plainApplication({ permissions: ['token:create', 'token:read', 'token:delete'] });
  const { key = '' } = (await manager.expect<{ key?: string }>(201, 'POST', '/applications', { body })).body;
  const traffic = load(manager.withKey(key));
  const next = startNextProjectors(url);
  const old = (await members()).filter(({ name }) => name.startsWith('projectors'));
  expect(old).toHaveLength(2);
  for (const { pid } of old) process.kill(pid, 'SIGTERM');
  await waitUntil(async () => (await members()).every(({ pid }) => !old.some((each) => each.pid === pid)), {
    timeoutMs: 30_000,
    what: 'the end of the old projectors',
  });
  const before = traffic.done();
  const metadata = {
    tenant_id: vault.credentials.tenant_id,
    actor: { kind: 'system' as const, id: 'test' },
    trace_id: 't',
    correlation_id: 't',
    occurred_at: new Date().toISOString(),
  };
  for (let round = 0; round < 50; round += 1) {
    const data = { token_id: 'praised', token_type: 'token', key_ids: [] };
    const event = newEvent(TokenDeleted, data, { id: randomUUID(), metadata });
    await next.append('praise', [{ ...event, type: 'TokenPraised', version: 1 } as never], 'any');
    // The events come over five seconds of traffic, so that processes of this release meet them during requests.
    await sleep(100);
  }
  // A process that waits in vain for its read models reports that after two seconds (rules.md §1).
  await sleep(2_000);
  await traffic.stop();
  expect(traffic.wrong).toEqual([]);
  expect(traffic.done() - before).toBeGreaterThan(100);
});
