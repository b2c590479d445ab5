import { shownBy } from '@token-vault/access';
import { TokensRead, type DataOf, type Token, type Transform } from '@token-vault/contracts';
import type { AuditTrail, RequestContext } from '@token-vault/service-kit';
import { isErased } from '../erased.ts';
import { presentToken } from './present.ts';
import { showData, type TokenOpener } from './reveal.ts';
import type { TokenRow } from './row.ts';

/** A token that the caller may see, and how. */
export interface GrantedToken {
  readonly row: TokenRow;
  readonly transform: Transform;
}

type ReadOperation = DataOf<'TokensRead'>['operation'];

export type ShowTokens = (
  tokens: readonly GrantedToken[],
  context: RequestContext,
  operation: ReadOperation,
) => Promise<Token[]>;

/**
 * Audit before answer: opening and recording go side by side, and nothing is given before both are done. A token that was
 * deleted meanwhile is left out. What is given rejects as the audit trail does.
 */
export function createTokenShow(keyRing: TokenOpener, audit: AuditTrail): ShowTokens {
  async function showOne({ row, transform }: GrantedToken, now: Date): Promise<Token | undefined> {
    try {
      return presentToken(row, await showData(keyRing, row, transform, now));
    } catch (error) {
      if (isErased(error)) return undefined;
      throw error;
    }
  }

  return async (tokens, context, operation) => {
    const [shown] = await Promise.all([
      Promise.all(tokens.map((token) => showOne(token, context.now))),
      audit.record(context, TokensRead, readOf(tokens, operation)),
    ]);
    return shown.filter((token) => token !== undefined);
  };
}

function readOf(tokens: readonly GrantedToken[], operation: ReadOperation): DataOf<'TokensRead'> {
  return {
    operation,
    tokens: tokens.map(({ row, transform }) => ({
      token_id: row.id,
      token_type: row.type,
      transform: shownBy(transform, row.mask !== null),
    })),
  };
}
