import {
  decideTokenAccess,
  refusalText,
  searchableData,
  shownBy,
  tokenVisibility,
  type TokenAccess,
} from '@token-vault/access';
import {
  entityTypeOfToken,
  ForbiddenError,
  NotFoundError,
  type BodyOf,
  type Operations,
  type TokenPermission,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { Expressions } from '@token-vault/expressions';
import type {
  Answer,
  AnswerToken,
  AuditTrail,
  HandlersOf,
  MadeOf,
  RequestContext,
} from '@token-vault/operations';
import type { MissLimit } from '@token-vault/http';
import type { Pool } from 'pg';
import type { FairReads } from '../fair-reads.ts';
import type { Page } from '../paging.ts';
import { createTokenLookup } from './lookup.ts';
import { checkMetadataFilters } from './metadata-filters.ts';
import { areOvertaken } from './overtaken.ts';
import { requireSmallPage } from './page-bytes.ts';
import { findTokens, listTokens, type TokenScope } from './queries.ts';
import { cvcEndOfRow, isExpired, type TokenRow } from './row.ts';
import { searchCondition } from './search/conditions.ts';
import { dataTermsOf } from './search/data-terms.ts';
import { parseQuery } from './search/parser.ts';
import { findTold, madeOfTold } from './search/told.ts';
import { createTokenShow, type GrantedToken } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';

export interface TokenDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly missLimit: MissLimit;
}

const defaultPageSize = 20;

const permissionOf = { list: 'token:read', search: 'token:search' } as const;

type TokenQueries = Pick<HandlersOf<'query'>, 'getToken' | 'listTokens' | 'searchTokens'>;

/**
 * Gives the page, and the tokens of whose data its total tells. Terms over data that no found token has are counted as misses.
 * @throws ValidationError, RateLimitedError
 */
async function search(
  { reads, keyRing, missLimit }: Pick<TokenDependencies, 'reads' | 'keyRing' | 'missLimit'>,
  body: BodyOf<Operations['searchTokens']>,
  context: RequestContext,
): Promise<{ readonly page: Page<TokenRow>; readonly told?: MadeOf }> {
  const query = parseQuery(body.query);
  const { principal } = context;
  const hashes = await keyRing.hashes(principal.tenant.id);
  const searched = { tenantId: principal.tenant.id, hashes, searchable: searchableData(principal) };
  const scope = scopeOf(context, 'token:search');
  const request = { page: body.page ?? 1, size: body.size ?? defaultPageSize };
  const reader = reads.of(principal.tenant.id);
  const find = () => findTokens(reader, scope, { condition: searchCondition(query, searched) }, request);
  const terms = dataTermsOf(query, searched);
  if (terms.size === 0) return { page: await find() };
  const tries = missLimit.count(context, terms.size);
  const [page, told] = await Promise.all([find(), findTold(reader, scope, query, searched)]);
  tries.found(told.foundTerms);
  return { page, told: madeOfTold(told) };
}

export function createTokenHandlers(dependencies: TokenDependencies): TokenQueries {
  const { pool, reads, keyRing, audit, expressions } = dependencies;
  const findToken = createTokenLookup(pool);
  const show = createTokenShow(keyRing, audit, expressions);
  const areRowsOvertaken = (rows: readonly TokenRow[], { principal: { tenant } }: RequestContext) =>
    areOvertaken(pool, tenant.id, rows);

  /** @param told the tokens of whose data the total tells, whether they are on the page or not */
  async function showPage(
    { pagination, data }: Page<TokenRow>,
    context: RequestContext,
    operation: 'list' | 'search',
    told: MadeOf = {},
  ): Promise<Answer> {
    const permission = permissionOf[operation];
    await requireSignedRows(keyRing, context.principal.tenant, data);
    const granted = data.map((row) => grantedOf(context, permission, row));
    const tokens = [...seenIn(granted, permission, context), ...(told.tokens ?? [])];
    const madeOf = { ...told, tokens };
    requireSmallPage(granted, madeOf);
    const shown = await show(granted, context, operation, pagination.total_items);
    const isOvertaken = () => areRowsOvertaken(data, context);
    return { body: { pagination, data: shown }, ...madeOf, isOvertaken };
  }

  return {
    async getToken({ params }, context) {
      const row = await findToken(context.principal.tenant.id, params.id);
      if (!row || isExpired(row, context.now)) throw new NotFoundError('Token');
      await requireSignedRows(keyRing, context.principal.tenant, [row]);
      const granted = [requireReadable(context, row)];
      const [shown] = await show(granted, context, 'read');
      if (!shown) throw new NotFoundError('Token');
      const isOvertaken = () => areRowsOvertaken([row], context);
      return { body: shown, tokens: seenIn(granted, 'token:read', context), isOvertaken };
    },

    async listTokens({ query }, context) {
      checkMetadataFilters(query.metadata);
      const filters = { ids: query.id, types: query.type, metadata: query.metadata };
      const reader = reads.of(context.principal.tenant.id);
      const page = await listTokens(reader, scopeOf(context, 'token:read'), filters, query);
      return showPage(page, context, 'list');
    },

    async searchTokens({ body }, context) {
      const { page, told } = await search(dependencies, body, context);
      return showPage(page, context, 'search', told);
    },
  };
}

/** @throws ForbiddenError when no rule grants the caller this token */
function requireReadable(context: RequestContext, row: TokenRow): GrantedToken {
  const access = accessTo(context, 'token:read', row);
  if (access.isGranted) return { ...access, row };
  const detail = refusalText(access, 'No access rule lets this caller read tokens of this container.');
  throw new ForbiddenError(detail, { type: entityTypeOfToken(row.type), id: row.id });
}

/** The tokens that reactor code saw by this query (RunOrigin.onTokens). */
const seenIn = (
  granted: readonly GrantedToken[],
  permission: TokenPermission,
  { now }: RequestContext,
): AnswerToken[] =>
  granted.map(({ row, transform }) => ({
    id: row.id,
    createdAt: row.created_at.toISOString(),
    expiresAt: row.expires_at?.toISOString(),
    by: 'seen',
    shown: { permission, transform: shownBy(transform, row.mask !== null) },
    cvcEndsAt: cvcEndOfRow(row, now),
  }));

/** The transform of a row that the query selected. The query applies the same rules, so a rule always grants it. */
function grantedOf(context: RequestContext, permission: TokenPermission, row: TokenRow): GrantedToken {
  const access = accessTo(context, permission, row);
  if (!access.isGranted) throw new Error('a token is visible by the query but not by the rules');
  return { ...access, row };
}

const accessTo = (
  { principal }: RequestContext,
  permission: TokenPermission,
  { id, container }: TokenRow,
): TokenAccess => decideTokenAccess(principal, permission, { id, containers: [container] });

/** @throws ForbiddenError when a rule requires a reason that the caller does not give */
function scopeOf({ principal, now }: RequestContext, permission: TokenPermission): TokenScope {
  const visibility = tokenVisibility(principal, permission);
  if (visibility.kind === 'needs-reason') throw new ForbiddenError(refusalText(visibility, ''));
  return { tenantId: principal.tenant.id, visibility, now };
}
