/**
 * Measures lists, searches and log queries alone on one connection; prints a Markdown table. `npm run bench:lists` runs it, giving a
 * database that has the read models (DATABASE_URL), the tenant to seed (TENANT_ID) and the file of the root key (ROOT_KEY_FILE), whose
 * tenant key signs the tokens.
 */
import { createKeyRing, fileRootKey } from '@token-vault/crypto';
import pg from 'pg';
import type { LogGroup, LogInterval } from '@token-vault/contracts';
import type { LogFilters } from '../src/logs/entries.ts';
import { listLogs } from '../src/logs/queries.ts';
import { summarizeLogs } from '../src/logs/summary.ts';
import { findTokens, listTokens, type TokenFilters, type TokenScope } from '../src/tokens/queries.ts';
import { searchCondition } from '../src/tokens/search/conditions.ts';
import { parseQuery } from '../src/tokens/search/parser.ts';
import { seedReadModels } from './seed.ts';

const [tokens = 1_000_000, entries = 5_000_000] = process.argv.slice(2).map(Number);
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 1 });
const tenantId = process.env['TENANT_ID'] ?? '';
const rounds = 50;

const everything: TokenScope = { tenantId, visibility: { kind: 'all' }, now: new Date() };
const within = (...prefixes: string[]): TokenScope => ({
  ...everything,
  visibility: { kind: 'any-of', clauses: prefixes.map((prefix) => ({ kind: 'container', prefix })) },
});
const filters = (chosen: Partial<TokenFilters>): TokenFilters => ({
  ids: [],
  types: [],
  metadata: [],
  ...chosen,
});
const first = { page: 1, size: 20 };
const deep = { page: 1000, size: 20 };
const hashes = { blindIndex: (_field: string, value: string) => value };
const search = (query: string, page = first, scope = everything) =>
  findTokens(
    pool,
    scope,
    { condition: searchCondition(parseQuery(query), { tenantId, hashes, searchable: { kind: 'all' } }) },
    page,
  );
const at = (share: number) => new Date(Date.parse('2029-01-01') + share * entries * 10_000);
const newest = (days: number) => ({ from: new Date(at(1).getTime() - days * 86_400_000), before: at(1) });
const summary = (chosen: LogFilters, interval: LogInterval, group?: LogGroup) =>
  summarizeLogs(pool, tenantId, chosen, { interval, group });
const { rows } = await pool.query<{ last: string; full: string; id: string; entity: string }>(
  `select md5('last42') as last, md5('full77') as full, md5('77')::uuid::text as id, md5('88')::uuid::text as entity`,
);
const known = rows[0];
if (!known) throw new Error('no answer');

const cases: Record<string, () => Promise<unknown>> = {
  'tokens, page 1': () => listTokens(pool, everything, filters({}), first),
  'tokens, page 1,000': () => listTokens(pool, everything, filters({}), deep),
  'tokens of a type, page 1': () => listTokens(pool, everything, filters({ types: ['card'] }), first),
  'tokens of a type, page 1,000': () => listTokens(pool, everything, filters({ types: ['card'] }), deep),
  'tokens of two types, page 1': () =>
    listTokens(pool, everything, filters({ types: ['card', 'bank'] }), first),
  'tokens within a container, page 1': () => listTokens(pool, within('/pci/'), filters({}), first),
  'tokens within a container, page 1,000': () => listTokens(pool, within('/pci/'), filters({}), deep),
  'tokens within a rare container': () => listTokens(pool, within('/rare/'), filters({}), first),
  'tokens by id': () => listTokens(pool, everything, filters({ ids: [known.id] }), first),
  'tokens by metadata, few': () =>
    listTokens(pool, everything, filters({ metadata: [{ key: 'customer', value: '4242' }] }), first),
  'tokens by metadata, a third': () =>
    listTokens(pool, everything, filters({ metadata: [{ key: 'color', value: 'blue' }] }), first),
  'search, one': () => search(`data:${known.full}`),
  'search, a hundred': () => search(`data:${known.last}`),
  'search, either of two': () => search(`data:${known.full} OR metadata.customer:4242`),
  'search, both of two': () => search(`data:${known.last} AND type:bank`),
  'search by id or fingerprint': () => search(`id:${known.id} OR fingerprint:x`),
  'search of an hour': () => search('created_at:[2030-01-05T00:00:00Z TO 2030-01-05T01:00:00Z]'),
  'log, page 1': () => listLogs(pool, tenantId, {}, first),
  'log, page 1,000': () => listLogs(pool, tenantId, {}, deep),
  'log of a type, page 1': () => listLogs(pool, tenantId, { entityType: 'token' }, first),
  'log of a type, page 1,000': () => listLogs(pool, tenantId, { entityType: 'token' }, deep),
  'log of a rare type': () => listLogs(pool, tenantId, { entityType: 'tenant' }, first),
  'log of an actor, page 1': () => listLogs(pool, tenantId, { actorId: 'seed' }, first),
  'log of an actor and an operation': () =>
    listLogs(pool, tenantId, { actorId: 'seed', operation: 'denied' }, first),
  'log of a trace': () => listLogs(pool, tenantId, { traceId: '4242' }, first),
  'log of a rare operation': () => listLogs(pool, tenantId, { operation: 'denied' }, first),
  'log of what was revealed, page 1,000': () => listLogs(pool, tenantId, { transform: 'reveal' }, deep),
  'log of a rare request': () => listLogs(pool, tenantId, { request: 'getTenant' }, first),
  'log of an entity': () => listLogs(pool, tenantId, { entityId: known.entity }, first),
  'log of the oldest tenth, page 1': () => listLogs(pool, tenantId, { before: at(0.1) }, first),
  'log of the newest 30 days, page 1': () => listLogs(pool, tenantId, newest(30), first),
  'log of the newest 30 days, page 1,000': () => listLogs(pool, tenantId, newest(30), deep),
  'summary of all, by day': () => summary({}, 'day'),
  'summary of the newest 30 days, by hour': () => summary(newest(30), 'hour'),
  'summary of reveals of 7 days, by actor and hour': () =>
    summary({ ...newest(7), transform: 'reveal' }, 'hour', 'actor'),
  'log of a range and a type': () =>
    listLogs(pool, tenantId, { from: at(0.2), before: at(0.4), entityType: 'application' }, first),
};

const startedAt = performance.now();
const rootKey = await fileRootKey(process.env['ROOT_KEY_FILE'] ?? '');
const keyRing = await createKeyRing({ pool, rootKey, clock: { now: () => new Date() }, durability: 'own' });
await seedReadModels(pool, { id: tenantId, hashes: await keyRing.hashes(tenantId) }, { tokens, entries });
console.log(
  `${tokens} tokens, ${entries} log entries, seeded in ${Math.round(performance.now() - startedAt)} ms\n`,
);
console.log('| query | median ms | p99 ms |\n|---|---|---|');
for (const [name, run] of Object.entries(cases)) {
  await run();
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const start = performance.now();
    await run();
    times.push(performance.now() - start);
  }
  times.sort((left, right) => left - right);
  const quantile = (share: number) => times[Math.ceil(share * rounds) - 1]?.toFixed(1);
  console.log(`| ${name} | ${quantile(0.5)} | ${quantile(0.99)} |`);
}
await pool.end();
