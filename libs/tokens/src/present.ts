import type { Json, Token, TokenContent, TokenType, Transform } from '@token-vault/contracts';
import { secret, type Secret } from '@token-vault/crypto';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  renderMask,
  type RequestExpressions,
} from '@token-vault/expressions';

/** A token as it is stored, by its events or by its row of the read model. */
export interface TokenDetails {
  readonly id: string;
  readonly type: TokenType;
  readonly content: TokenContent;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly modifiedBy: string | undefined;
  readonly modifiedAt: string | undefined;
}

/**
 * The data after the transform (interface.md, Access rule transforms). Undefined when nothing of it is shown: then
 * `open` is not called.
 */
export async function transformData(
  expressions: RequestExpressions,
  transform: Transform,
  mask: Json | undefined,
  open: () => Promise<Secret<Json>> | Secret<Json>,
): Promise<Secret<Json> | undefined> {
  switch (transform) {
    case 'redact':
      return undefined;
    case 'reveal':
      return open();
    case 'mask':
      return mask === undefined ? undefined : applyMask(expressions, mask, await open());
  }
}

/**
 * A mask shows nothing when it fails on this data (an impossible cast, a cvc that is gone) or exceeds the request's
 * budget for expressions (ADR 22). The caller cannot correct the mask, and must still be shown the rest.
 */
async function applyMask(
  expressions: RequestExpressions,
  mask: Json,
  data: Secret<Json>,
): Promise<Secret<Json> | undefined> {
  try {
    return secret(await renderMask(expressions, mask, data.expose()));
  } catch (error) {
    if (error instanceof ExpressionEvaluationError || error instanceof ExpressionSyntaxError)
      return undefined;
    throw error;
  }
}

/**
 * A token in the shape of an answer (rules.md §1), with `data` as the caller's transform shows it. JSON leaves out
 * undefined fields; `mask` is the expression itself.
 */
export function presentToken(
  tenantId: string,
  { id, type, content, createdBy, createdAt, modifiedBy, modifiedAt }: TokenDetails,
  data: Secret<Json> | undefined,
): Token {
  return {
    id,
    tenant_id: tenantId,
    type,
    data: data?.expose(),
    mask: content.mask,
    fingerprint: content.fingerprint,
    fingerprint_expression: content.fingerprint_expression,
    containers: content.containers,
    metadata: content.metadata,
    search_indexes: content.search_indexes ?? [],
    expires_at: content.expires_at,
    created_by: createdBy,
    created_at: createdAt,
    modified_by: modifiedBy,
    modified_at: modifiedAt,
  };
}
