import { seesEverything } from '@token-vault/access';
import type { RequestContext } from '@token-vault/operations';
import type { Page, PageRequest } from '../../paging.ts';
import type { Sql } from '../../statements.ts';
import { findTokens } from '../queries.ts';
import type { FoundRow } from '../large-rows.ts';
import { searchCondition } from './conditions.ts';
import { withoutTerms } from './data-terms.ts';
import { findUnproven, type MatchDependencies } from './genuine.ts';
import type { MatchScope } from './matches.ts';
import type { SearchQuery } from './query.ts';
import { findTold, type Told } from './told.ts';

interface DataSearch extends MatchScope {
  readonly request: PageRequest;
}

interface FoundByData {
  readonly page: Page<FoundRow>;
  /** Finds tokens of the page again. */
  readonly condition: Sql;
  readonly told: Told;
}

/**
 * A search with terms over data. Its terms are checked before the caller is told of their matches, unless it sees every token in plaintext.
 * A term that no data proves matches nothing.
 * @throws AlteredRecordError, ExpressionsBusyError
 */
export async function searchData(
  dependencies: MatchDependencies,
  search: DataSearch,
  query: SearchQuery,
  context: RequestContext,
): Promise<FoundByData> {
  const isChecked = !seesEverything(context.principal, 'token:search');
  const [found, unproven] = await Promise.all([
    answerTo(search, query),
    isChecked ? findUnproven(dependencies, search, query, context) : new Set<string>(),
  ]);
  return unproven.size === 0 ? found : answerTo(search, withoutTerms(query, unproven, search.searched));
}

async function answerTo(
  { reader, scope, searched, request }: DataSearch,
  query: SearchQuery,
): Promise<FoundByData> {
  const condition = searchCondition(query, searched);
  const [page, told] = await Promise.all([
    findTokens(reader, scope, { condition }, request),
    findTold(reader, scope, query, searched),
  ]);
  return { page, condition, told };
}
