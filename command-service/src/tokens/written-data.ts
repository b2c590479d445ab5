import { UnavailableError, type Json, type Transform } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import type { RequestExpressions } from '@token-vault/expressions';
import { transformData } from '@token-vault/tokens';

export interface WrittenMask {
  readonly mask?: Json | undefined;
  /** The masked data, when the mask was evaluated to check it. */
  readonly masked?: Secret<Json> | undefined;
}

/**
 * The data in the answer of a write, after the transform. The write is done, so its answer must not be an error: a mask
 * that finds no free worker shows nothing.
 */
export async function transformWrittenData(
  expressions: RequestExpressions,
  transform: Transform,
  { mask, masked }: WrittenMask,
  open: () => Promise<Secret<Json>> | Secret<Json>,
): Promise<Secret<Json> | undefined> {
  if (transform === 'mask' && masked !== undefined) return masked;
  try {
    return await transformData(expressions, transform, mask, open);
  } catch (error) {
    if (error instanceof UnavailableError) return undefined;
    throw error;
  }
}
