import { holderOf } from '@token-vault/access';
import { ThreadShares } from '@token-vault/batching';
import { NotFoundError } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import type { Pool } from 'pg';
import { createLargeTokens, type LargePages } from './large-pages.ts';
import { isWhole, smallTokenBytes } from './large-rows.ts';
import { createTokenLookup } from './lookup.ts';
import { readTokensByIds } from './queries.ts';
import type { TokenOpener } from './reveal.ts';
import { isExpired, type TokenRow } from './row.ts';

export interface SingleReads {
  /**
   * Runs `work` on the whole row of one token. The row of a large token is read when it is the turn of the application.
   * @throws NotFoundError, UnavailableError when it waits for too long, and any error of `work`
   */
  run<Result>(
    context: RequestContext,
    id: string,
    work: (row: TokenRow, isLarge: boolean) => Promise<Result>,
  ): Promise<Result>;
  /** Opens large data when it is the tenant's turn. */
  openerOf(context: Pick<RequestContext, 'principal' | 'signal'>): TokenOpener;
}

/** What follows takes about as long as opening: writing the data into the answer, or copying it to a worker. */
const timesAsLong = 2;

/** 400 connections that read tokens of 512 KiB had 200 of them in one answer of Postgres, and opened them one after the other. */
export function createSingleReads(
  pool: Pool,
  keyRing: TokenOpener,
  { largeTokens = createLargeTokens() }: { readonly largeTokens?: LargePages } = {},
): SingleReads {
  const findToken = createTokenLookup(pool);
  // Not `threadShares`: an application may rest there for many seconds, and would hold its place here meanwhile.
  const shares = new ThreadShares();
  const present = (row: TokenRow | undefined, { now }: RequestContext): TokenRow => {
    if (!row || isExpired(row, now)) throw new NotFoundError('Token');
    return row;
  };
  return {
    async run(context, id, work) {
      const { id: tenantId } = context.principal.tenant;
      const found = await findToken(tenantId, id);
      if (!found || isWhole(found)) return work(present(found, context), false);
      return largeTokens.run(context, [found], async () => {
        const [row] = await readTokensByIds(pool, tenantId, [id]);
        return work(present(row, context), true);
      });
    },
    openerOf: ({ principal, signal }) => ({
      async open(place, sealed) {
        if (sealed.length <= smallTokenBytes) return keyRing.open(place, sealed);
        const turn = await shares.begin(holderOf(principal), signal);
        try {
          return await keyRing.open(place, sealed);
        } finally {
          turn.end({ timesAsLong });
        }
      },
    }),
  };
}
