import type { Json, JsonObject, Transform } from '@token-vault/contracts';
import { secret, type KeyRing, type Secret } from '@token-vault/crypto';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  renderMask,
  type RequestExpressions,
} from '@token-vault/expressions';
import { isErased } from '../erased.ts';
import type { TokenRow } from './row.ts';
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
 * The part of a token's data that the caller is shown. Undefined when the caller is shown none. This is the only
 * place of this service that opens token data. A redacted token, and a masked one without a mask, stay sealed.
 * @throws KeyDestroyedError when the token was deleted meanwhile.
 */
export async function showData(
  showing: Showing,
  row: TokenRow,
  transform: Transform,
): Promise<Secret<Json> | undefined> {
  const { keyRing, now } = showing;
  switch (transform) {
    case 'redact':
      return undefined;
    case 'reveal':
      return openData(keyRing, row, now);
    case 'mask':
      return row.mask === null ? undefined : applyMask(showing, row.mask, await openData(keyRing, row, now));
  }
}

/**
 * A mask shows nothing when it fails on this data (for example, an impossible cast) or exceeds the request's budget
 * for expressions (ADR 22). The reader cannot correct the mask, and the other tokens of the page must still be
 * readable.
 */
async function applyMask(
  { expressions, turns }: Showing,
  mask: string,
  data: Secret<Json>,
): Promise<Secret<Json> | undefined> {
  await turns.take(mask.length);
  try {
    return secret(await renderMask(expressions, JSON.parse(mask) as Json, data.expose()));
  } catch (error) {
    if (error instanceof ExpressionEvaluationError || error instanceof ExpressionSyntaxError)
      return undefined;
    throw error;
  }
}

/** The data without a card's cvc, which may not be kept (PCI DSS 3.3.1). */
export const openLastingData = (keyRing: TokenOpener, row: TokenRow): Promise<Secret<Json>> =>
  keyRing.open({ tenantId: row.tenant_id, entity: `token:${row.id}`, field: 'data' }, row.data);

async function openData(keyRing: TokenOpener, row: TokenRow, now: Date): Promise<Secret<Json>> {
  const [data, cvc] = await Promise.all([openLastingData(keyRing, row), openCvc(keyRing, row, now)]);
  return cvc ? secret({ ...(data.expose() as JsonObject), cvc: cvc.expose() }) : data;
}

/** The end of the cvc. Undefined when there is no cvc that may be shown. */
export const cvcEndOf = ({ cvc, cvc_expires_at: endsAt }: TokenRow, now: Date): Date | undefined =>
  cvc === null || endsAt === null || endsAt <= now ? undefined : endsAt;

/**
 * The cvc may be shown for one hour by the clock, even when its key is destroyed late (interface.md, card data
 * shape).
 */
async function openCvc(keyRing: TokenOpener, row: TokenRow, now: Date): Promise<Secret<Json> | undefined> {
  if (row.cvc === null || cvcEndOf(row, now) === undefined) return undefined;
  try {
    const context = { tenantId: row.tenant_id, entity: `token:${row.id}`, field: 'cvc' };
    return await keyRing.open(context, row.cvc);
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}
