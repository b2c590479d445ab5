import type { TokenVisibility } from '@token-vault/access';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, sql, type Sql } from '../sql.ts';
import { hasIdOf, idsByMetadata, isThere, visibilityCondition } from './filters.ts';
import { tokenColumns, type TokenRow } from './row.ts';

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
): Promise<Page<TokenRow>> {
  return fetchPage(page, count, async () => {
    // The page is chosen on narrow index rows; the wide rows are read only for the tokens of the page.
    const statement = sql`
      with chosen as materialized (
        select t.tenant_id, t.id, t.seq, t.ordinal from rm_tokens.token t
        where ${inScope(scope)} and ${condition}
        order by t.seq desc, t.ordinal desc, t.id ${limits(page)}
      )
      select ${tokenColumns} from chosen
      join rm_tokens.token t on t.tenant_id = chosen.tenant_id and t.id = chosen.id
      order by chosen.seq desc, chosen.ordinal desc`;
    return (await reader.query<TokenRow>(compile(statement))).rows;
  });
}

/** The tokens of these ids that exist, in any order, expired ones included. What the caller may see of them is decided afterwards. */
export async function findTokensByIds(
  reader: Reader,
  tenantId: string,
  ids: readonly string[],
): Promise<TokenRow[]> {
  const statement = sql`select ${tokenColumns} from rm_tokens.token t
    where t.tenant_id = ${tenantId}::uuid and t.id = any(${ids}::text[])`;
  return (await reader.query<TokenRow>(compile(statement))).rows;
}

export function listTokens(
  reader: Reader,
  scope: TokenScope,
  filters: TokenFilters,
  page: PageRequest,
): Promise<Page<TokenRow>> {
  const count = isCounted(scope, filters) ? () => countByCounters(reader, scope, filters.types) : undefined;
  return findTokens(reader, scope, { condition: filterCondition(scope.tenantId, filters), count }, page);
}

const inScope = ({ tenantId, now, visibility }: TokenScope): Sql => isThere(tenantId, now, visibility);

function filterCondition(tenantId: string, { ids, types, metadata }: TokenFilters): Sql {
  return allOf([
    ...(ids.length > 0 ? [sql`t.id = any(${ids}::text[])`] : []),
    ...(types.length > 0 ? [sql`t.type = any(${types}::text[])`] : []),
    ...metadata.map(({ key, value }) => hasIdOf(idsByMetadata(tenantId, key, value))),
  ]);
}

async function countByScan(reader: Reader, scope: TokenScope, condition: Sql): Promise<number> {
  const statement = sql`select count(*)::float8 as total from rm_tokens.token t where ${inScope(scope)} and ${condition}`;
  return totalOf(reader, statement);
}

/** Whether the counters can answer: they count by container and type only. */
function isCounted({ visibility }: TokenScope, { ids, metadata }: TokenFilters): boolean {
  if (ids.length > 0 || metadata.length > 0) return false;
  return isByContainer(visibility);
}

function isByContainer(visibility: TokenVisibility): boolean {
  if (visibility.kind === 'all-of') return visibility.parts.every(isByContainer);
  return visibility.kind !== 'any-of' || visibility.clauses.every(({ kind }) => kind === 'container');
}

/** The sum of the counters, less the tokens that have expired and that the sweeper has not ended yet. */
async function countByCounters(reader: Reader, scope: TokenScope, types: readonly string[]): Promise<number> {
  const condition = sql`t.tenant_id = ${scope.tenantId}::uuid and ${visibilityCondition(scope.visibility)}
    and ${types.length > 0 ? sql`t.type = any(${types}::text[])` : sql`true`}`;
  const statement = sql`select (
    (select coalesce(sum(t.count), 0) from rm_tokens.token_count t where ${condition})
    - (select count(*) from rm_tokens.token t where ${condition} and t.expires_at <= ${scope.now})
  )::float8 as total`;
  return totalOf(reader, statement);
}
