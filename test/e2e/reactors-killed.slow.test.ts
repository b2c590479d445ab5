import type { Application, LogEntry, Reactor } from '@token-vault/contracts';
import {
  type Client,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Receiver, startReceiver } from './receiver.ts';

const env = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };

let dataDir: string;
let vault: StandaloneProcess;
let backend: Client;
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, env });
  const body = plainApplication({ permissions: ['token:use', 'token:read'] });
  const made = await vault.client().expect<Application>(201, 'POST', '/applications', { body });
  backend = vault.client(made.body.key);
});
afterAll(async () => {
  await receiver.close();
  await removeDataDirectory(dataDir);
});

async function makeReactor(code: string): Promise<string> {
  const body = { name: 'r', configuration: {}, code };
  return (await vault.client().expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

async function messagesOf(id: string): Promise<readonly string[]> {
  const { body } = await vault
    .client()
    .expect<{ data: LogEntry[] }>(200, 'GET', `/logs?entity_id=${id}&size=100`);
  return body.data.map(({ message }) => message).reverse();
}

describe('a vault that is killed', () => {
  it(
    'while code runs gives the run one outcome, at its deadline, and delivers it',
    { timeout: 240_000 },
    async () => {
      // Tells that it runs; then never ends by itself.
      const id = await makeReactor(
        `module.exports = async () => {
         await fetch('${receiver.url}?running', { method: 'POST' });
         await new Promise((resolve) => setTimeout(resolve, 9_000));
         return { tokenize: 'output' };
       };`,
      );
      const options = { body: { callback_url: receiver.url } };
      await backend.expect(202, 'POST', `/reactors/${id}/react`, options);
      await waitUntil(() => receiver.deliveries.length === 1, { timeoutMs: 20_000, what: 'the run' });
      await vault.kill({ withPostgres: true });
      vault = await startStandaloneProcess({ dataDir, env });
      expect(await messagesOf(id)).toEqual(['Reactor created', 'Reactor invoked']);
      await waitUntil(() => receiver.deliveries.length === 2, { timeoutMs: 150_000, what: 'the delivery' });
      expect(JSON.parse(receiver.deliveries[1]?.text ?? '')).toMatchObject({
        status: 500,
        errors: { error: ['The reactor was stopped before it finished.'] },
      });
      await waitUntil(async () => (await messagesOf(id)).includes('Reactor webhook delivered'));
      expect(await messagesOf(id)).toEqual([
        'Reactor created',
        'Reactor invoked',
        'Reactor failed',
        'Reactor webhook delivered',
      ]);
    },
  );
});
