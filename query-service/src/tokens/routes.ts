import { decideTokenAccess, tokenVisibility } from '@token-vault/access';
import {
  ForbiddenError,
  NotFoundError,
  TokensRead,
  type DataOf,
  type Token,
  type TokenPermission,
  type Transform,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { AuditTrail, Handlers, RequestContext } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import type { Page } from '../paging.ts';
import { createTokenLookup } from './lookup.ts';
import { checkMetadataFilters } from './metadata-filters.ts';
import { presentToken } from './present.ts';
import { listTokens, type TokenScope } from './queries.ts';
import { showData } from './reveal.ts';
import { isExpired, type TokenRow } from './row.ts';

export interface TokenDependencies {
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
}

interface GrantedToken {
  readonly row: TokenRow;
  readonly transform: Transform;
}

export function createTokenHandlers({ pool, keyRing, audit }: TokenDependencies): Handlers {
  const findToken = createTokenLookup(pool);

  return {
    async getToken({ params }, context) {
      const row = await findToken(context.principal.tenant.id, params.id);
      if (!row || isExpired(row, context.now)) throw new NotFoundError('Token');
      const transform = transformFor(context, 'token:read', row);
      if (!transform)
        throw new ForbiddenError('No access rule lets this caller read tokens of this container.');
      const [shown] = await show([{ row, transform }], context, 'read');
      if (!shown) throw new NotFoundError('Token');
      return { body: shown };
    },

    async listTokens({ query }, context) {
      checkMetadataFilters(query.metadata);
      const filters = { ids: query.id, types: query.type, metadata: query.metadata };
      const page = await listTokens(pool, scopeOf(context, 'token:read'), filters, query);
      return { body: await showPage(page, context, 'token:read', 'list') };
    },
  };

  async function showPage(
    { pagination, data }: Page<TokenRow>,
    context: RequestContext,
    permission: TokenPermission,
    operation: 'list' | 'search',
  ): Promise<Page<Token>> {
    const granted = data.map((row) => {
      const transform = transformFor(context, permission, row);
      if (!transform) throw new Error('a token is visible by the query but not by the rules');
      return { row, transform };
    });
    return { pagination, data: await show(granted, context, operation) };
  }

  /**
   * Audit before answer: opening and recording go side by side, and nothing is given before both are done. A token that
   * was deleted meanwhile is left out.
   */
  async function show(
    tokens: readonly GrantedToken[],
    context: RequestContext,
    operation: DataOf<'TokensRead'>['operation'],
  ): Promise<Token[]> {
    const [shown] = await Promise.all([
      Promise.all(tokens.map((token) => showOne(token, context.now))),
      audit.record(context, TokensRead, readOf(tokens, operation)),
    ]);
    return shown.filter((token) => token !== undefined);
  }

  async function showOne({ row, transform }: GrantedToken, now: Date): Promise<Token | undefined> {
    try {
      return presentToken(row, await showData(keyRing, row, transform, now));
    } catch (error) {
      if (error instanceof KeyDestroyedError) return undefined;
      throw error;
    }
  }
}

function readOf(
  tokens: readonly GrantedToken[],
  operation: DataOf<'TokensRead'>['operation'],
): DataOf<'TokensRead'> {
  return {
    operation,
    tokens: tokens.map(({ row, transform }) => ({ token_id: row.id, token_type: row.type, transform })),
  };
}

function transformFor(
  { principal }: RequestContext,
  permission: TokenPermission,
  { id, container }: TokenRow,
): Transform | undefined {
  const access = decideTokenAccess(principal, permission, { id, containers: [container] });
  return access.isGranted ? access.transform : undefined;
}

const scopeOf = ({ principal, now }: RequestContext, permission: TokenPermission): TokenScope => ({
  tenantId: principal.tenant.id,
  visibility: tokenVisibility(principal, permission),
  now,
});
