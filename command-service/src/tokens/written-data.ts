import { UnavailableError, type Json, type Transform } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import type { RequestExpressions } from '@token-vault/expressions';
import { transformData } from '@token-vault/tokens';

/**
 * The data in the answer of a write, after the transform. The write is done, so its answer must not be an error: a mask
 * that finds no free worker shows nothing.
 */
export async function transformWrittenData(
  expressions: RequestExpressions,
  transform: Transform,
  mask: Json | undefined,
  open: () => Promise<Secret<Json>> | Secret<Json>,
): Promise<Secret<Json> | undefined> {
  try {
    return await transformData(expressions, transform, mask, open);
  } catch (error) {
    if (error instanceof UnavailableError) return undefined;
    throw error;
  }
}
