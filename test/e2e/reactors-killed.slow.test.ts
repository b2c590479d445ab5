import { type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { useVault } from '../world/vault.ts';

const receiver = useReceiver(beforeAll);
const vault = useVault();
let backend: Client;

beforeAll(async () => {
  backend = (await vault.makeApplication({ permissions: ['token:use', 'token:read'] })).client;
});

const messagesOf = async (id: string): Promise<readonly string[]> =>
  (await vault.logOf({ entity_id: id })).map(({ message }) => message).reverse();

const invoke = (id: string, args: object = {}) =>
  backend.expect(202, 'POST', `/reactors/${id}/react`, { body: { args, callback_url: receiver.url } });

describe('a vault that is killed while code runs and other invocations wait', () => {
  const waitingCount = 40;
  let endless: string;
  let slow: string;
  const results = () =>
    receiver.deliveries
      .filter(({ headers }) => headers['webhook-id'] !== undefined)
      .map(({ headers, text }) => ({
        id: headers['webhook-id'],
        body: JSON.parse(text) as { raw?: unknown },
      }));
  const deliveredIds = () => new Set(results().map(({ id }) => id));

  beforeAll(async () => {
    // Reports that it runs, then runs for its whole time limit.
    endless = await vault.makeReactor(`module.exports = async () => {
      await fetch('${receiver.url}?running', { method: 'POST' });
      await new Promise((resolve) => setTimeout(resolve, 9_000));
      return { tokenize: 'output' };
    };`);
    // Each run takes 300 ms, so that most of them still wait when the vault is killed. `endless` occupies one of the places.
    slow = await vault.makeReactor(`module.exports = async (req) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return { raw: req.args.n };
    };`);
    await invoke(endless);
    await waitUntil(() => receiver.deliveries.length === 1, { timeoutMs: 20_000, what: 'the run' });
    await Promise.all(Array.from({ length: waitingCount }, (_, n) => invoke(slow, { n })));
  }, 60_000);

  it('answers synchronous calls meanwhile', async () => {
    const quick = await vault.makeReactor('module.exports = async () => ({ raw: "at once" });');
    const body = { args: {} };
    const answer = await backend.expect<{ raw: string }>(200, 'POST', `/reactors/${quick}/react`, { body });
    expect(answer.body.raw).toBe('at once');
    expect(deliveredIds().size).toBeLessThan(waitingCount);
  });

  it('reports the number of waiting invocations', async () => {
    const waiting = async (): Promise<number> => {
      const text = await (await fetch(`${vault.process().url}/metrics`)).text();
      return Number(/^vault_invocations_pending\{[^}]*state="waiting"[^}]*\} (\d+)$/m.exec(text)?.[1]);
    };
    await waitUntil(async () => (await waiting()) > 0);
    expect(await waiting()).toBeLessThan(waitingCount);
  });

  it('gives each one outcome, and delivers it', { timeout: 240_000 }, async () => {
    await waitUntil(() => deliveredIds().size >= 3, { timeoutMs: 30_000, what: 'the first deliveries' });
    await vault.process().kill({ withPostgres: true });
    await vault.start();
    expect(await messagesOf(endless)).toEqual(['Reactor created', 'Reactor invoked']);
    const count = waitingCount + 1;
    await waitUntil(() => deliveredIds().size === count, { timeoutMs: 150_000, what: 'all deliveries' });
    // At most two other runs were under way at the kill.
    const returned = new Set(results().map(({ body }) => body.raw));
    returned.delete(undefined);
    expect(returned.size).toBeGreaterThanOrEqual(waitingCount - 2);
    const failed = results().find(({ body }) => body.raw === undefined);
    expect(failed?.body).toMatchObject({
      status: 500,
      errors: { error: ['The reactor was stopped before it finished.'] },
    });
    await waitUntil(async () => (await messagesOf(endless)).includes('Reactor webhook delivered'));
    expect(await messagesOf(endless)).toEqual([
      'Reactor created',
      'Reactor invoked',
      'Reactor failed',
      'Reactor webhook delivered',
    ]);
  });
});
