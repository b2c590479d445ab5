import { isSignature, type Signer } from './signature.ts';

/** The end of a part of a verification: a position of the log, and the revision of the tenant's last checkpoint before it (-1: none). */
export interface VerifiedTo {
  readonly position: string;
  readonly revision: number;
}

/** No part of a verification of this tenant has ended at the given cursor. */
export class UnknownCursorError extends Error {
  readonly code = 'unknown_cursor';

  constructor() {
    super('no part of a verification of this tenant has ended at the cursor');
  }
}

/** The tenant is not in the text, because the key belongs to the tenant. */
const textOf = (place: string): string => JSON.stringify(['token-vault verification cursor 1', place]);

/** @returns `<position>.<number of checkpoints before it>.<signature>` */
export function signCursor(signer: Signer, { position, revision }: VerifiedTo): string {
  const place = `${position}.${revision + 1}`;
  return `${place}.${signer.sign(textOf(place))}`;
}

/**
 * A verification that began at a forged cursor would leave out events, or compare a stretch from its middle on.
 * @param publicKey raw, base64url: of the tenant
 * @throws UnknownCursorError
 */
export function readCursor(publicKey: string, cursor: string): VerifiedTo {
  const [position = '', count = '', signature = ''] = cursor.split('.');
  if (!isSignature(textOf(`${position}.${count}`), publicKey, signature)) throw new UnknownCursorError();
  return { position, revision: Number(count) - 1 };
}
