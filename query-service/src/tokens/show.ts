import { isErased } from '@token-vault/crypto';
import { seesFingerprints, shownBy } from '@token-vault/access';
import { TokensRead, type DataOf, type Token, type Transform } from '@token-vault/contracts';
import type { Expressions } from '@token-vault/expressions';
import type { AuditTrail, RequestContext } from '@token-vault/operations';
import { showToken, type Showing, type TokenOpener } from './reveal.ts';
import type { TokenRow } from './row.ts';
import { Turns } from './turns.ts';

/** A token that the caller may see, with the transform that applies to it. */
export interface GrantedToken {
  readonly row: TokenRow;
  readonly transform: Transform;
  readonly isBreakGlass?: true;
}

type ReadOperation = DataOf<'TokensRead'>['operation'];

export type ShowTokens = (
  tokens: readonly GrantedToken[],
  context: RequestContext,
  operation: ReadOperation,
  /** The total of the list or search, which the answer tells. */
  total?: number,
) => Promise<Token[]>;

/**
 * The audit record comes before the answer: opening and recording run at the same time, and nothing is given before
 * both are done. A token that was deleted meanwhile is left out. The promise rejects when the record cannot be
 * written.
 */
export function createTokenShow(
  keyRing: TokenOpener,
  audit: AuditTrail,
  expressions: Expressions,
): ShowTokens {
  async function showOne(
    { row, transform }: GrantedToken,
    showing: Showing & { readonly hasFingerprints: boolean },
  ): Promise<Token | undefined> {
    try {
      const token = await showToken(showing, row, transform);
      return showing.hasFingerprints ? token : { ...token, fingerprint: undefined };
    } catch (error) {
      if (isErased(error)) return undefined;
      throw error;
    }
  }

  return async (tokens, context, operation, total = 0) => {
    const { identity, principal, now } = context;
    const budget = expressions.of(identity, principal.tenant.id);
    const hasFingerprints = seesFingerprints(principal);
    const showing = { keyRing, expressions: budget, turns: new Turns(), now, hasFingerprints };
    const [shown] = await Promise.all([
      Promise.all(tokens.map((token) => showOne(token, showing))),
      audit.record(context, TokensRead, readOf(tokens, operation, total)),
    ]);
    return shown.filter((token) => token !== undefined);
  };
}

function readOf(
  tokens: readonly GrantedToken[],
  operation: ReadOperation,
  total: number,
): DataOf<'TokensRead'> {
  return {
    operation,
    tokens: tokens.map(({ row, transform, isBreakGlass }) => ({
      token_id: row.id,
      token_type: row.type,
      transform: shownBy(transform, row.mask !== null),
      ...(isBreakGlass ? { break_glass: true } : {}),
    })),
    ...(tokens.length === 0 && total > 0 ? { found: total } : {}),
  };
}
