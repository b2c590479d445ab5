import { searchableData } from '@token-vault/access';
import { type BodyOf, type Operations } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { Expressions } from '@token-vault/expressions';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { MissLimit } from '@token-vault/http';
import type { Pool } from 'pg';
import type { FairReads } from '../fair-reads.ts';
import { scopeOf } from './granted.ts';
import type { LargePages } from './large-pages.ts';
import { checkMetadataFilters } from './metadata-filters.ts';
import { filterCondition, findTokens, listTokens } from './queries.ts';
import { searchCondition } from './search/conditions.ts';
import { searchData } from './search/data-search.ts';
import { dataTermsOf, fingerprintsOf } from './search/data-terms.ts';
import { parseQuery } from './search/parser.ts';
import { madeOfTold } from './search/told.ts';
import { ShownPage, type Found } from './shown-page.ts';
import { ShownToken } from './shown-token.ts';
import type { SingleReads } from './single-reads.ts';

export interface TokenDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly largePages: LargePages;
  readonly singleReads: SingleReads;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly missLimit: MissLimit;
}

const defaultPageSize = 20;

type TokenQueries = Pick<HandlersOf<'query'>, 'getToken' | 'listTokens' | 'searchTokens'>;

/**
 * Terms over data that no found token has are counted as misses.
 * @throws ValidationError, RateLimitedError
 */
async function search(
  dependencies: TokenDependencies,
  body: BodyOf<Operations['searchTokens']>,
  context: RequestContext,
): Promise<Found> {
  const { reads, keyRing, missLimit } = dependencies;
  const query = parseQuery(body.query.expose());
  const { principal } = context;
  const hashes = await keyRing.hashes(principal.tenant.id);
  const searched = { tenantId: principal.tenant.id, hashes, searchable: searchableData(principal) };
  const scope = scopeOf(context, 'token:search');
  const request = { page: body.page ?? 1, size: body.size ?? defaultPageSize };
  const reader = reads.of(context);
  const terms = dataTermsOf(query, searched);
  const fingerprints = missLimit.countsHits(context) ? fingerprintsOf(query).size : 0;
  const guesses = terms.size + fingerprints;
  const tries = guesses > 0 ? await missLimit.count(context, guesses) : undefined;
  const condition = searchCondition(query, searched);
  if (terms.size === 0)
    return { page: await findTokens(reader, scope, { condition }, request), request, condition };
  // Tries of a search that fails stay counted, be it 503: who can write the database can end its statements, and see in the statistics what
  // they found.
  const found = await searchData(dependencies, { reader, scope, searched, request }, query, context);
  await tries?.found(found.told.foundTerms);
  return { ...found, request, told: madeOfTold(found.told) };
}

export function createTokenHandlers(dependencies: TokenDependencies): TokenQueries {
  const { reads } = dependencies;

  return {
    async getToken({ params }, context) {
      const pending = new ShownToken(dependencies, params.id, context);
      await pending.show(context);
      return { pending };
    },

    async listTokens({ query }, context) {
      const pending = new ShownPage(dependencies, 'list');
      checkMetadataFilters(query.metadata);
      const filters = { ids: query.id, types: query.type, metadata: query.metadata };
      const { id: tenantId } = context.principal.tenant;
      const page = await listTokens(reads.of(context), scopeOf(context, 'token:read'), filters, query);
      const condition = filterCondition(tenantId, filters);
      await pending.show({ page, request: query, condition }, context);
      return { pending };
    },

    async searchTokens({ body }, context) {
      const pending = new ShownPage(dependencies, 'search');
      await pending.show(await search(dependencies, body, context), context);
      return { pending };
    },
  };
}
