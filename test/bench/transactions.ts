// The time to fill and to end a transaction, by its number of tokens (issue 18, B4: linear, and the commit of 10,000 within 2 s).
import { createClient } from '@token-vault/test-support';
import { median } from './load.ts';
import type { Server } from './server.ts';

const sizes = [100, 1_000, 10_000];
const connections = 8;
const ends = ['commit', 'rollback'] as const;

type Client = ReturnType<typeof createClient>;

/** Fills a transaction by single creates. Gives the time in milliseconds. */
async function fill(caller: Client, transaction: string, size: number): Promise<number> {
  const headers = { 'SVC-TRANSACTION-ID': transaction };
  const text = JSON.stringify({ type: 'token', data: 'enlisted' });
  let left = size;
  const begun = performance.now();
  const work = async () => {
    while (left-- > 0) await caller.expect(201, 'POST', '/tokens', { text, headers });
  };
  await Promise.all(Array.from({ length: connections }, work));
  return performance.now() - begun;
}

async function measureOne(caller: Client, size: number, end: (typeof ends)[number]) {
  const { body } = await caller.expect<{ id: string }>(201, 'POST', '/transactions');
  const filledMs = await fill(caller, body.id, size);
  const begun = performance.now();
  await caller.expect(200, 'POST', `/transactions/${body.id}/${end}`);
  return { perSecond: size / (filledMs / 1_000), endedMs: performance.now() - begun };
}

/** `rounds` of each size. The largest size runs once. */
export async function measureTransactions(server: Server, key: string, rounds: number): Promise<string> {
  const caller = createClient(server.url, key);
  const lines: string[] = [];
  for (const size of sizes) {
    for (const end of ends) {
      const results: { perSecond: number; endedMs: number }[] = [];
      for (let round = 0; round < (size > 1_000 ? 1 : rounds); round += 1)
        results.push(await measureOne(caller, size, end));
      const perSecond = median(results.map((it) => it.perSecond)).toFixed(0);
      const endedMs = median(results.map((it) => it.endedMs)).toFixed(0);
      lines.push(`| ${[size, end, perSecond, endedMs].join(' | ')} |`);
      process.stderr.write(`${lines.at(-1) ?? ''}\n`);
    }
  }
  return [
    `Transactions, filled by creates over ${connections} connections, and their end. The aim is the same rate for each size, and a`,
    'commit of 10,000 within 2,000 ms.',
    '',
    '| tokens | end | enlisted/s | end ms |',
    '| --: | :-- | --: | --: |',
    ...lines,
    '',
  ].join('\n');
}
