import type { Token, Transform } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { RequestExpressions } from '@token-vault/expressions';
import { openToken, presentToken, transformData } from '@token-vault/tokens';
import { detailsOf, type TokenRow } from './row.ts';
import type { Turns } from './turns.ts';

export type TokenOpener = Pick<KeyRing, 'open'>;

/** The state that all tokens of one answer share. */
export interface Showing {
  readonly keyRing: TokenOpener;
  readonly expressions: RequestExpressions;
  readonly turns: Turns;
  readonly now: Date;
}

/**
 * The token as the caller is shown it. A redacted token, and a masked one without a mask, stay sealed.
 * @throws KeyDestroyedError when the token was deleted meanwhile.
 */
export async function showToken(
  { keyRing, expressions, turns, now }: Showing,
  row: TokenRow,
  transform: Transform,
): Promise<Token> {
  const details = detailsOf(row);
  const { content } = details;
  const data = await transformData(expressions, transform, content.mask, async () => {
    const opened = await openToken(keyRing, { tenantId: row.tenant_id, tokenId: row.id }, content, now);
    if (transform === 'mask' && row.mask !== null) await turns.take(row.mask.length + row.data.length);
    return opened;
  });
  return presentToken(row.tenant_id, details, data);
}
