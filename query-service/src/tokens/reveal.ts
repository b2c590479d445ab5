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

/** What all tokens of one answer share. */
export interface Showing {
  readonly keyRing: TokenOpener;
  readonly expressions: RequestExpressions;
  readonly turns: Turns;
  readonly now: Date;
}

/**
 * What a caller is shown of a token's data; undefined when nothing. The one place of this service that opens token data,
 * and it does so only for who may see some of it: a redacted token, and a masked one without a mask, stay sealed.
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
 * A mask that this data does not suit (say, a cast that is impossible), or that takes more than the request has for expressions,
 * shows nothing (ADR 22): the reader cannot mend it, and the other tokens of the page are still to be had.
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

/** Without a card's cvc, which is nobody's to keep (PCI DSS 3.3.1). */
export const openLastingData = (keyRing: TokenOpener, row: TokenRow): Promise<Secret<Json>> =>
  keyRing.open({ tenantId: row.tenant_id, entity: `token:${row.id}`, field: 'data' }, row.data);

async function openData(keyRing: TokenOpener, row: TokenRow, now: Date): Promise<Secret<Json>> {
  const [data, cvc] = await Promise.all([openLastingData(keyRing, row), openCvc(keyRing, row, now)]);
  return cvc ? secret({ ...(data.expose() as JsonObject), cvc: cvc.expose() }) : data;
}

/** Undefined when there is none that may be shown. */
export const cvcEndOf = ({ cvc, cvc_expires_at: endsAt }: TokenRow, now: Date): Date | undefined =>
  cvc === null || endsAt === null || endsAt <= now ? undefined : endsAt;

/** The cvc lives for an hour by the clock, whether or not its key is destroyed on time (interface.md, card data shape). */
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
