import { seesEverything } from '@token-vault/access';
import { UnavailableError } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import type { Reader } from '../../fair-reads.ts';
import type { Page, PageRequest } from '../../paging.ts';
import type { Sql } from '../../statements.ts';
import { findTokens, type TokenScope } from '../queries.ts';
import type { TokenRow } from '../row.ts';
import { searchCondition, type Searched } from './conditions.ts';
import { findMatches, findNotGenuine, type MatchDependencies } from './genuine.ts';
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

/** A search is made again so often: its terms do not match tokens that do not have their values. */
const mostRounds = 10;

/**
 * A search with terms over data. Its matches are checked before the caller is told of them, unless it sees every token in plaintext.
 * @throws AlteredRecordError, UnavailableError
 */
export async function searchData(
  dependencies: MatchDependencies,
  { reader, scope, request, ...given }: DataSearch,
  query: SearchQuery,
  context: RequestContext,
): Promise<FoundByData> {
  const isChecked = !seesEverything(context.principal, 'token:search');
  let searched = given.searched;
  for (let round = 0; round < mostRounds; round += 1) {
    const condition = searchCondition(query, searched);
    const [page, told, matches] = await Promise.all([
      findTokens(reader, scope, { condition }, request),
      findTold(reader, scope, query, searched),
      isChecked ? findMatches(reader, scope, query, searched) : [],
    ]);
    const without = await findNotGenuine(dependencies, matches, context);
    if (without.length === 0) return { page, condition, told };
    searched = { ...searched, withoutValue: [...(searched.withoutValue ?? []), ...without] };
  }
  throw new UnavailableError(
    'Too many tokens of the search do not have the value by which they are found; try again.',
  );
}
