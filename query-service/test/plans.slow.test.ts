import { randomUUID } from 'node:crypto';
import type { Pool, QueryConfig } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seedReadModels } from '../bench/seed.ts';
import type { LogFilters } from '../src/logs/entries.ts';
import { listLogs } from '../src/logs/queries.ts';
import { createTokenLookup } from '../src/tokens/lookup.ts';
import {
  findAmong,
  findTokens,
  listTokens,
  type TokenFilters,
  type TokenScope,
} from '../src/tokens/queries.ts';
import { searchCondition, type Searched } from '../src/tokens/search/conditions.ts';
import { findMatches } from '../src/tokens/search/matches.ts';
import { parseQuery } from '../src/tokens/search/parser.ts';
import { findTold } from '../src/tokens/search/told.ts';
import { setUpVault, type Vault } from './vault.ts';

let vault: Vault;
const tenantId = randomUUID();

beforeAll(async () => {
  vault = await setUpVault();
  await vault.stopProjecting();
  await vault.keyRing.createTenantKeys(tenantId);
  const hashes = await vault.keyRing.hashes(tenantId);
  await seedReadModels(vault.pool, { id: tenantId, hashes }, { tokens: 20_000, entries: 50_000 });
});
afterAll(() => vault.end());

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly Plans?: readonly Plan[];
}
const flattened = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flattened)];

/** The tables that the statements of `run` read with a sequential scan. */
async function scannedBy(run: (pool: Pool) => Promise<unknown>): Promise<string[]> {
  const scanned: string[] = [];
  const explaining = {
    async query(statement: QueryConfig) {
      const { rows } = await vault.pool.query<{ 'QUERY PLAN': { Plan: Plan }[] }>({
        text: `explain (format json) ${statement.text}`,
        values: statement.values ?? [],
      });
      const plans = rows.flatMap((row) => row['QUERY PLAN'].flatMap(({ Plan: plan }) => flattened(plan)));
      for (const node of plans) {
        if (node['Node Type'] === 'Seq Scan') scanned.push(node['Relation Name'] ?? '');
      }
      return vault.pool.query(statement);
    },
  };
  await run(explaining as unknown as Pool);
  // The counter tables have few rows, so a scan is faster than an index look-up.
  return scanned.filter((table) => !table.endsWith('_count'));
}

const scope: TokenScope = { tenantId, visibility: { kind: 'all' }, now: new Date() };
const within = (prefix: string): TokenScope => ({
  ...scope,
  visibility: { kind: 'any-of', clauses: [{ kind: 'container', prefix }] },
});
const filters = (chosen: Partial<TokenFilters>): TokenFilters => ({
  ids: [],
  types: [],
  metadata: [],
  ...chosen,
});
const page = { page: 1, size: 20 };
const hashes = { blindIndex: (_field: string, value: string) => value };
const searched: Searched = { tenantId, hashes, searchable: { kind: 'all' } };
const search = (query: string) => (pool: Pool) =>
  findTokens(pool, scope, { condition: searchCondition(parseQuery(query), searched) }, page);
const again = (query: string) => (pool: Pool) =>
  findAmong(pool, scope, searchCondition(parseQuery(query), searched), ['a', 'b']);
const told = (query: string) => (pool: Pool) => findTold(pool, scope, parseQuery(query), searched);
const matches = (query: string) => (pool: Pool) =>
  findMatches({ reader: pool, scope, searched }, parseQuery(query));
const logs = (chosen: LogFilters) => (pool: Pool) => listLogs(pool, tenantId, chosen, page);

describe('no table is read from end to end', () => {
  it.each<[string, (pool: Pool) => Promise<unknown>]>([
    ['for tokens by id', (pool) => createTokenLookup(pool)(tenantId, 'any')],
    ['for the first page of tokens', (pool) => listTokens(pool, scope, filters({}), page)],
    ['for tokens of a type', (pool) => listTokens(pool, scope, filters({ types: ['card'] }), page)],
    ['for tokens within a container', (pool) => listTokens(pool, within('/rare/'), filters({}), page)],
    ['for a list of ids', (pool) => listTokens(pool, scope, filters({ ids: ['a', 'b'] }), page)],
    [
      'for tokens by metadata',
      (pool) => listTokens(pool, scope, filters({ metadata: [{ key: 'customer', value: '42' }] }), page),
    ],
    ['for a search of data', search('data:x')],
    ['for a search of this or that', search('data:x OR metadata.customer:42 OR id:a')],
    ['for some tokens that a search of metadata found', again('metadata.color:blue AND NOT data:x')],
    ['for what a search of data tells', told('data:x')],
    ['for what a search of this or that tells', told('data:x OR metadata.customer:42 OR id:a')],
    ['for what a search of data without some tells', told('data:x AND NOT data:y')],
    ['for the matches of a search of data', matches('data:x')],
    [
      'for the matches of this or that, without some',
      matches('(data:x OR metadata.customer:42) AND NOT data:y'),
    ],
    ['for a search of a fingerprint', search('fingerprint:x')],
    ['for the first page of the log', logs({})],
    ['for the log of an entity', logs({ entityId: 'x' })],
    ['for the log of a rare type', logs({ entityType: 'tenant' })],
    ['for the log of an actor', logs({ actorId: 'x' })],
    ['for the log of a trace', logs({ traceId: 'x' })],
    ['for the log of a rare operation', logs({ operation: 'denied' })],
    ['for the log of what was revealed', logs({ operation: 'read', transform: 'reveal' })],
    ['for the log of a rare request', logs({ request: 'rotateWebhookSecret' })],
    [
      'for the log of a range',
      logs({ from: new Date('2029-01-02T00:30:00Z'), before: new Date('2029-01-03T00:30:00Z') }),
    ],
  ])('%s', async (_what, run) => {
    expect(await scannedBy(run)).toEqual([]);
  });

  it('is detected by this test when it happens', async () => {
    expect(
      await scannedBy((pool) =>
        pool.query({ text: `select from rm_tokens.token t where t.mask = 'x'`, values: [] }),
      ),
    ).toEqual(['token']);
  });
});
