import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Application, ApplicationKey } from '@token-vault/contracts';
import {
  cardToken,
  type Client,
  createClient,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, expect, it } from 'vitest';

const connections = 64;

let dataDir: string;
let vault: StandaloneProcess;
let replicas: readonly { readonly name: string; readonly port: number }[];
const names = ['query-service 1', 'query-service 2', 'command-service 1', 'command-service 2'];

function replica(name: string, key: string): Client {
  const port = replicas.find((each) => each.name === name)?.port ?? 0;
  return createClient(`http://127.0.0.1:${port}`, key);
}
const ask = (name: string, key: string) =>
  name.startsWith('query')
    ? replica(name, key).request('GET', '/tokens?size=1')
    : replica(name, key).request('POST', '/tokens', { body: cardToken() });

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, stack: 'processes' });
  replicas = JSON.parse(await readFile(path.join(dataDir, 'stack.json'), 'utf8')) as typeof replicas;
});
afterAll(() => removeDataDirectory(dataDir));

it('a key is replaced three times under load without a failed request, and the replaced key is refused everywhere once it is deleted', async () => {
  const body = plainApplication();
  const { body: made } = await vault.client().expect<Application>(201, 'POST', '/applications', { body });
  const at = `/applications/${made.id}`;
  let key = made.key ?? '';
  let isOver = false;
  const failed: number[] = [];
  const answers = Array.from({ length: connections }, () => 0);
  const load = answers.map(async (_, index) => {
    while (!isOver) {
      const { status } = await ask(names[index % names.length] ?? '', key);
      answers[index] = (answers[index] ?? 0) + 1;
      if (status >= 400) failed.push(status);
    }
  });
  /** Two answers later no connection has a request with the key before under way. */
  const rounds = async () => {
    const before = [...answers];
    const isDone = () => answers.every((count, index) => count >= (before[index] ?? 0) + 2);
    await waitUntil(isDone, { what: 'two answers on each connection', timeoutMs: 60_000 });
  };
  /** A deletion that a busy machine does not confirm in time is answered 503, and the request is to be repeated. */
  const remove = async (path: string): Promise<void> => {
    for (;;) {
      const { status, headers } = await vault.client().request('DELETE', path);
      if (status !== 503) return expect(status).toBe(204);
      await sleep(Number(headers.get('retry-after')) * 1_000);
    }
  };
  /** A new key that is not confirmed in time is answered 503, too. The repeat has the same idempotency key, so it makes no second key. */
  const regenerated = async (): Promise<string> => {
    const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
    for (;;) {
      const answer = await vault
        .client()
        .request<Application>('POST', `${at}/regenerate?overlap=600`, { headers });
      if (answer.status !== 503) {
        expect(answer.status).toBe(200);
        return answer.body.key ?? '';
      }
      await sleep(Number(answer.headers.get('retry-after')) * 1_000);
    }
  };
  try {
    for (let round = 0; round < 3; round += 1) {
      const client = vault.client();
      const [{ id: old } = { id: '' }] = (await client.expect<ApplicationKey[]>(200, 'GET', `${at}/keys`))
        .body;
      const before = key;
      key = await regenerated();
      await rounds();
      await remove(`${at}/keys/${old}`);
      // A deletion is answered when no process accepts the key any more.
      for (const name of names) expect((await ask(name, before)).status).toBe(401);
    }
  } finally {
    isOver = true;
    await Promise.all(load);
  }
  expect(failed).toEqual([]);
});
