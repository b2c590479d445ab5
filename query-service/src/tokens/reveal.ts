import type { Token, TokenContent, Transform } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { RequestExpressions } from '@token-vault/expressions';
import { mayHoldCvc, openToken, presentToken, transformData } from '@token-vault/tokens';
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

/** A cvc stays sealed when the mask does not read it. */
const neededOf = (content: TokenContent, transform: Transform): TokenContent =>
  content.cvc === undefined || mayHoldCvc(content, transform) ? content : { ...content, cvc: undefined };

/**
 * The token as it is shown to the caller. The data of a redacted token, or of a masked one without a mask, is not opened.
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
    const place = { tenantId: row.tenant_id, tokenId: row.id };
    const opened = await openToken(keyRing, place, neededOf(content, transform), now);
    if (transform === 'mask' && row.mask !== null) await turns.take(row.mask.length + row.data.length);
    return opened;
  });
  return presentToken(row.tenant_id, details, data);
}
