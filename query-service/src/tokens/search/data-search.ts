import { seesEverything } from '@token-vault/access';
import { UnavailableError } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import type { Reader } from '../../fair-reads.ts';
import type { Page, PageRequest } from '../../paging.ts';
import type { Sql } from '../../statements.ts';
import { findTokens, type TokenScope } from '../queries.ts';
import type { TokenRow } from '../row.ts';
import { searchCondition, type Searched } from './conditions.ts';
import { findMatches, requireGenuine, type MatchDependencies } from './genuine.ts';
import type { SearchQuery } from './query.ts';
import { findTold, type Told } from './told.ts';

interface DataSearch {
  readonly reader: Reader;
  readonly scope: TokenScope;
  readonly searched: Searched;
  readonly request: PageRequest;
}

interface FoundByData {
  readonly page: Page<TokenRow>;
  /** Finds tokens of the page again. */
  readonly condition: Sql;
  readonly told: Told;
}

/** A search is tried again so often without tokens that were deleted meanwhile. */
const mostRounds = 10;

const withoutIds = (query: SearchQuery, ids: readonly string[]): SearchQuery => ({
  kind: 'all-of',
  of: [query, ...ids.map((value) => ({ kind: 'not', of: { kind: 'text', field: 'id', value } }) as const)],
});

/**
 * A search with terms over data. Its matches are checked before the caller is told of them, unless it sees every token in plaintext.
 * @throws AlteredRecordError, UnavailableError
 */
export async function searchData(
  dependencies: MatchDependencies,
  { reader, scope, searched, request }: DataSearch,
  query: SearchQuery,
  context: RequestContext,
): Promise<FoundByData> {
  const isChecked = !seesEverything(context.principal, 'token:search');
  let present = query;
  for (let round = 0; round < mostRounds; round += 1) {
    const condition = searchCondition(present, searched);
    const [page, told, matches] = await Promise.all([
      findTokens(reader, scope, { condition }, request),
      findTold(reader, scope, present, searched),
      isChecked ? findMatches(reader, scope, present, searched) : [],
    ]);
    const erased = await requireGenuine(dependencies, matches, context);
    if (erased.length === 0) return { page, condition, told };
    present = withoutIds(present, erased);
  }
  throw new UnavailableError('Tokens of the search are deleted faster than it is answered; try again.');
}
