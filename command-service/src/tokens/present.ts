import { UnavailableError, type Json, type Token, type Transform } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  renderMask,
  type RequestExpressions,
} from '@token-vault/expressions';
import type { TokenDetails } from './state.ts';

/** The data after the transform (interface.md, Access rule transforms). */
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
 * A mask shows nothing when it fails on the present data (the cvc is gone, the time limit is met) or finds no free
 * worker. The write is done, so its answer must not be an error.
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

/** A token as answers show it. JSON leaves out undefined fields. */
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
