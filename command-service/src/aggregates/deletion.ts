import { NotFoundError } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { Answer } from '@token-vault/operations';

export type Deletion = Pick<Answer, 'position' | 'ifConfirmedBefore'>;

/** Deletes, or gives the position of an earlier deletion, so that a repeat confirms it. @throws NotFoundError */
export async function once(
  deletes: () => Promise<{ readonly position: Position | undefined }>,
  findEarlier: () => Promise<Position | undefined>,
): Promise<Deletion> {
  try {
    const { position } = await deletes();
    return { position };
  } catch (error) {
    const position = error instanceof NotFoundError ? await findEarlier() : undefined;
    if (position === undefined) throw error;
    return { position, ifConfirmedBefore: error as NotFoundError };
  }
}
