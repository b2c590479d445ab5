import { UnavailableError, type Json, type Token, type Transform } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  renderMask,
  type RequestExpressions,
} from '@token-vault/expressions';
import type { TokenDetails } from './state.ts';

/** What the transform leaves of the data (interface.md, Access rule transforms). */
export async function transformData(
  expressions: RequestExpressions,
  transform: Transform,
  data: Secret<Json>,
  mask: Json | undefined,
): Promise<Json | undefined> {
  switch (transform) {
    case 'redact':
      return undefined;
    case 'reveal':
      return data.expose();
    case 'mask':
      return mask === undefined ? undefined : applyMask(expressions, mask, data);
  }
}

const nothingShown = [ExpressionEvaluationError, ExpressionSyntaxError, UnavailableError];

/**
 * A mask that the data no longer suits (a cvc has gone, a limit of time is met) shows nothing, as on a read; nor does one that
 * finds no worker: the write is done, and its answer must not say otherwise.
 */
async function applyMask(
  expressions: RequestExpressions,
  mask: Json,
  data: Secret<Json>,
): Promise<Json | undefined> {
  try {
    return await renderMask(expressions, mask, data.expose());
  } catch (error) {
    if (nothingShown.some((type) => error instanceof type)) return undefined;
    throw error;
  }
}

/** A token as answers show it; fields that are undefined are left out by JSON. */
export function presentToken(tenantId: string, details: TokenDetails, data: Json | undefined): Token {
  const { content } = details;
  return {
    id: details.id,
    tenant_id: tenantId,
    type: details.type,
    data,
    mask: content.mask,
    fingerprint: content.fingerprint,
    fingerprint_expression: content.fingerprint_expression,
    containers: content.containers,
    metadata: content.metadata,
    search_indexes: content.search_indexes ?? [],
    expires_at: content.expires_at,
    created_by: details.createdBy,
    created_at: details.createdAt,
    modified_by: details.modifiedBy,
    modified_at: details.modifiedAt,
  };
}
