import type { TokenVisibility } from '@token-vault/access';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, sql, type Sql } from '../sql.ts';
import { hasIdOf, idsByMetadata, isThere, visibilityCondition } from './filters.ts';
import { tokenColumns, type TokenRow } from './row.ts';

/** Whose tokens, as whom, and when: what every query of tokens is cut by. */
export interface TokenScope {
  readonly tenantId: string;
  readonly visibility: TokenVisibility;
  readonly now: Date;
}

/** Filters of GET /tokens, all of which must hold; an empty one holds always. */
export interface TokenFilters {
  readonly ids: readonly string[];
  readonly types: readonly string[];
  /** Exact but for case. */
  readonly metadata: readonly { readonly key: string; readonly value: string }[];
}

/** A page of the tokens in scope that meet `condition` (on `t`), newest first. `count` gives a cheaper total when there is one. */
export function findTokens(
  reader: Reader,
  scope: TokenScope,
  condition: Sql,
  page: PageRequest,
  count: () => Promise<number> = () => countByScan(reader, scope, condition),
): Promise<Page<TokenRow>> {
  return fetchPage(page, count, async () => {
    // The page is chosen on narrow index rows; wide rows are read for its own tokens only.
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

export function listTokens(
  reader: Reader,
  scope: TokenScope,
  filters: TokenFilters,
  page: PageRequest,
): Promise<Page<TokenRow>> {
  const count = isCounted(scope, filters) ? () => countByCounters(reader, scope, filters.types) : undefined;
  return findTokens(reader, scope, filterCondition(scope.tenantId, filters), page, count);
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

/** The counters know containers and types, nothing else. */
function isCounted({ visibility }: TokenScope, { ids, metadata }: TokenFilters): boolean {
  if (ids.length > 0 || metadata.length > 0) return false;
  return isByContainer(visibility);
}

function isByContainer(visibility: TokenVisibility): boolean {
  if (visibility.kind === 'all-of') return visibility.parts.every(isByContainer);
  return visibility.kind !== 'any-of' || visibility.clauses.every(({ kind }) => kind === 'container');
}

/** What the counters say, less the tokens that have expired and still await the sweeper. */
async function countByCounters(reader: Reader, scope: TokenScope, types: readonly string[]): Promise<number> {
  const condition = sql`t.tenant_id = ${scope.tenantId}::uuid and ${visibilityCondition(scope.visibility)}
    and ${types.length > 0 ? sql`t.type = any(${types}::text[])` : sql`true`}`;
  const statement = sql`select (
    (select coalesce(sum(t.count), 0) from rm_tokens.token_count t where ${condition})
    - (select count(*) from rm_tokens.token t where ${condition} and t.expires_at <= ${scope.now})
  )::float8 as total`;
  return totalOf(reader, statement);
}
