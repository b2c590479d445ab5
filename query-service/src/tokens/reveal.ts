import type { Json, JsonObject, Transform } from '@token-vault/contracts';
import { secret, type KeyRing, type Secret } from '@token-vault/crypto';
import { ExpressionEvaluationError, ExpressionSyntaxError, renderMask } from '@token-vault/expressions';
import { isErased } from '../erased.ts';
import type { TokenRow } from './row.ts';

export type TokenOpener = Pick<KeyRing, 'open'>;

/**
 * What a caller is shown of a token's data; undefined when nothing. The one place of this service that opens token data,
 * and it does so only for who may see some of it: a redacted token, and a masked one without a mask, stay sealed.
 * @throws KeyDestroyedError when the token was deleted meanwhile.
 */
export async function showData(
  keyRing: TokenOpener,
  row: TokenRow,
  transform: Transform,
  now: Date,
): Promise<Secret<Json> | undefined> {
  switch (transform) {
    case 'redact':
      return undefined;
    case 'reveal':
      return openData(keyRing, row, now);
    case 'mask':
      return row.mask === null ? undefined : applyMask(row.mask, await openData(keyRing, row, now));
  }
}

/** A mask that this data does not suit (say, a cast that is impossible) shows nothing: the reader cannot mend it. */
function applyMask(mask: string, data: Secret<Json>): Secret<Json> | undefined {
  try {
    return secret(renderMask(JSON.parse(mask) as Json, data.expose()));
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

/** The cvc lives for an hour by the clock, whether or not its key is destroyed on time (interface.md, card data shape). */
async function openCvc(keyRing: TokenOpener, row: TokenRow, now: Date): Promise<Secret<Json> | undefined> {
  if (row.cvc === null || row.cvc_expires_at === null || row.cvc_expires_at <= now) return undefined;
  try {
    const context = { tenantId: row.tenant_id, entity: `token:${row.id}`, field: 'cvc' };
    return await keyRing.open(context, row.cvc);
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}
