import type { Application, LogEntry, Proxy, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  printed,
  removeDataDirectory,
  runCommand,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startDestination, type Destination } from './destination.ts';

const rounds = 8;
const atOnce = 24;

let dataDir: string;
let destination: Destination;
let vault: StandaloneProcess;
let managementKey: string;
let manager: Client;
let key: string;
let card: string;
/** Paths that lead to the same destination. */
let ways: readonly string[];

const start = async (): Promise<void> => {
  const env = { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile };
  vault = await startStandaloneProcess({ dataDir, env });
  manager = vault.client(managementKey);
};
beforeAll(async () => {
  destination = await startDestination();
  dataDir = await createDataDirectory();
  await start();
  const made = await runCommand(dataDir, ['tenants', 'create', 'sender', '--plan', 'standard']);
  managementKey = printed(made.stdout, 'management key');
  manager = vault.client(managementKey);
  const caller = { name: 'c', type: 'private', permissions: ['token:create', 'token:use'] };
  key = (await manager.expect<Application>(201, 'POST', '/applications', { body: caller })).body.key ?? '';
  const body = cardToken(cardNumber());
  card = (await manager.withKey(key).expect<Token>(201, 'POST', '/tokens', { body })).body.id;
  const proxy = { name: 'p', destination: destination.url };
  const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: proxy })).body;
  ways = ['/proxy', `/proxies/${id}/invoke`];
});
afterAll(async () => {
  await destination.close();
  await removeDataDirectory(dataDir);
});

const send = (trace: string, way: string): Promise<unknown> =>
  fetch(`${vault.url}${way}`, {
    method: 'POST',
    headers: {
      'SVC-API-KEY': key,
      'SVC-PROXY-URL': destination.url,
      'SVC-TRACE-ID': trace,
      'X-Trace': trace,
      'Content-Type': 'text/plain',
    },
    body: `{{ ${card} }}`,
  }).catch(() => undefined);

/** Kills the vault when this number of requests has arrived. */
async function killed(after: number): Promise<void> {
  const before = destination.arrived.length;
  const usual = destination.answer;
  await new Promise<void>((resolve) => {
    destination.answer = (request, response) => {
      if (destination.arrived.length >= before + after) resolve();
      usual(request, response);
    };
  });
  destination.answer = usual;
  await vault.kill();
}

it(
  'every request that arrived is in the log with the use of its token, at any time of the kill',
  { timeout: 300_000 },
  async () => {
    for (let round = 0; round < rounds; round += 1) {
      const sent = Array.from({ length: atOnce }, (_, index) =>
        send(`round-${round}-${index}`, ways[index % ways.length] ?? ''),
      );
      // With each round some more have arrived when the vault is killed; the others are on their way.
      await killed(1 + 2 * round);
      await Promise.all(sent);
      await start();
    }
    const arrived = destination.arrived.map(({ headers }) => String(headers['x-trace']));
    for (const trace of arrived) {
      const path = `/logs?trace_id=${trace}&size=10`;
      const { data } = (await manager.expect<{ data: LogEntry[] }>(200, 'GET', path)).body;
      const messages = data.map(({ message }) => message);
      expect([trace, messages]).toEqual([trace, expect.arrayContaining(['Token used'])]);
      expect(messages.some((message) => message.startsWith('Proxy invoked: POST'))).toBe(true);
    }
    const arrivedBy = new Set(arrived.map((trace) => Number(trace.split('-')[2]) % ways.length));
    expect(arrivedBy.size).toBe(ways.length);
    expect(arrived.length).toBeLessThan(rounds * atOnce);
  },
);
