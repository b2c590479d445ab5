import { aliased } from '@token-vault/contracts';
import type { TokenVisibility } from '@token-vault/access';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { countOf, fetchPage, pageOf, valueOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, db, descending, isOneOf, sql, type Sql } from '../statements.ts';
import { hasIdOf, idsByMetadata, isVisible, visibilityCondition } from './filters.ts';
import { foundColumns, type FoundRow } from './large-rows.ts';
import { t, tokenColumns, type TokenRow } from './row.ts';

/** The counters have the alias of the tokens: the same conditions on container and type apply to both. */
const counters = aliased('tokens', 'token_count', 't');

/** The tenant, the caller's visibility and the time. Every query of tokens is limited by them. */
export interface TokenScope {
  readonly tenantId: string;
  readonly visibility: TokenVisibility;
  readonly now: Date;
}

/** Filters of GET /tokens. All of them must hold. An empty filter always holds. */
export interface TokenFilters {
  readonly ids: readonly string[];
  readonly types: readonly string[];
  /** Compared exactly except for case. */
  readonly metadata: readonly { readonly key: string; readonly value: string }[];
}

/** The tokens of a scope that a query selects. */
export interface TokenSelection {
  /** A condition on the table `t`. */
  readonly condition: Sql;
  /** The total, when there is a cheaper way than a scan. */
  readonly count?: (() => Promise<number>) | undefined;
}

/** A page of the selected tokens in scope, newest first. */
export function findTokens(
  reader: Reader,
  scope: TokenScope,
  { condition, count = () => countByScan(reader, scope, condition) }: TokenSelection,
  page: PageRequest,
): Promise<Page<FoundRow>> {
  return fetchPage(page, count, async () => {
    // The page is chosen on narrow index rows; the wide rows are read only for the tokens of the page.
    const chosen = db(t.source)
      .select(t.tenant_id, t.id, t.seq, t.ordinal)
      .where(inScope(scope))
      .where(condition)
      .orderBy(descending(t.seq, t.ordinal, t.id));
    const statement = db
      .withMaterialized('chosen', pageOf(chosen, page))
      .select(found)
      .from('chosen')
      .join(t.source, { [t.tenant_id]: 'chosen.tenant_id', [t.id]: 'chosen.id' })
      .orderBy(descending('chosen.seq', 'chosen.ordinal'));
    return (await reader.query<FoundRow>(compile(statement))).rows;
  });
}

// One piece of text costs half as much to compose as twenty names.
const columns = db.raw(tokenColumns.join(', '));
const found = db.raw(foundColumns.join(', '));

// As in `lookup.ts`: one index lookup for each id. By `id = any(…)` Postgres read all tokens of the tenant until the table was analysed.
const byIdsOf = (given: readonly string[]) => `select ${given.join(', ')} from unnest(?::text[]) as w (wanted)
  cross join lateral (
    select ${tokenColumns.join(', ')} from ${t.source} where ${t.tenant_id} = ? and ${t.id} = w.wanted limit 1
  ) t`;

const byIds = byIdsOf(tokenColumns);
const foundByIds = byIdsOf(foundColumns);

/** The tokens of these ids that exist, in any order, expired ones included. The rights of the caller are decided afterwards. */
export async function findTokensByIds(
  reader: Reader,
  tenantId: string,
  ids: readonly string[],
): Promise<FoundRow[]> {
  return (await reader.query<FoundRow>(compile(sql(foundByIds, [...new Set(ids)], tenantId)))).rows;
}

/** As `findTokensByIds`, with whole rows. Called for a part of large rows. */
export async function readTokensByIds(
  pool: Pick<Pool, 'query'>,
  tenantId: string,
  ids: readonly string[],
): Promise<TokenRow[]> {
  return (await pool.query<TokenRow>(compile(sql(byIds, [...ids], tenantId)))).rows;
}

const among = (scope: TokenScope, condition: Sql, ids: readonly string[]) =>
  db
    .from(sql('(?) t', sql(byIds, [...ids], scope.tenantId)))
    .where(inScope(scope))
    .where(condition);

/** The tokens that have one of these ids and that the query selects. */
export async function findAmong(
  pool: Pick<Pool, 'query'>,
  scope: TokenScope,
  condition: Sql,
  ids: readonly string[],
): Promise<FoundRow[]> {
  const statement = among(scope, condition, ids).select(found);
  return (await pool.query<FoundRow>(compile(statement))).rows;
}

/** As `findAmong`, with whole rows. Called for a part of large rows. */
export async function readAmong(
  pool: Pick<Pool, 'query'>,
  scope: TokenScope,
  condition: Sql,
  ids: readonly string[],
): Promise<TokenRow[]> {
  const statement = among(scope, condition, ids).select(columns);
  return (await pool.query<TokenRow>(compile(statement))).rows;
}

export function listTokens(
  reader: Reader,
  scope: TokenScope,
  filters: TokenFilters,
  page: PageRequest,
): Promise<Page<FoundRow>> {
  const count = isCounted(scope, filters) ? () => countByCounters(reader, scope, filters.types) : undefined;
  return findTokens(reader, scope, { condition: filterCondition(scope.tenantId, filters), count }, page);
}

const inScope = ({ tenantId, now, visibility }: TokenScope): Sql => isVisible(tenantId, now, visibility);

/** The condition of a list on the table `t`. */
export function filterCondition(tenantId: string, { ids, types, metadata }: TokenFilters): Sql {
  return allOf([
    ...isOneOf(t.id, 'text', ids),
    ...isOneOf(t.type, 'text', types),
    ...metadata.map(({ key, value }) => hasIdOf(idsByMetadata(tenantId, key, value))),
  ]);
}

const countByScan = (reader: Reader, scope: TokenScope, condition: Sql): Promise<number> =>
  countOf(reader, db(t.source).where(inScope(scope)).where(condition));

/** Whether the counters can answer: they count by container and type only. */
function isCounted({ visibility }: TokenScope, { ids, metadata }: TokenFilters): boolean {
  if (ids.length > 0 || metadata.length > 0) return false;
  return isByContainer(visibility);
}

function isByContainer(visibility: TokenVisibility): boolean {
  if (visibility.kind === 'all-of') return visibility.parts.every(isByContainer);
  return visibility.kind !== 'any-of' || visibility.clauses.every(({ kind }) => kind === 'container');
}

/** The sum of the counters, minus the expired tokens that the sweeper has not ended yet. */
function countByCounters(reader: Reader, scope: TokenScope, types: readonly string[]): Promise<number> {
  const condition = allOf([
    sql(`${t.tenant_id} = ?`, scope.tenantId),
    visibilityCondition(scope.visibility),
    ...isOneOf(t.type, 'text', types),
  ]);
  const counted = db(counters.source)
    .select(db.raw(`coalesce(sum(${counters.count}), 0)`))
    .where(condition);
  const expired = db(t.source).count('*').where(condition).where(t.expires_at, '<=', scope.now);
  return valueOf(reader, sql('(?) - (?)', counted, expired));
}
