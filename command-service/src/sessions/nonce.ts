import { randomBytes } from 'node:crypto';
import { isUuid } from '@token-vault/contracts';

/** 192 random bits: a nonce cannot be guessed. */
const secretBytes = 24;
const pattern = /^([\da-f-]{36})\.[\w-]{32}$/;

/**
 * `<session id>.<32 base64url characters>`. The nonce carries the id of the session, so that the session is found in
 * the log itself. A read model may not have it yet.
 */
export const generateNonce = (sessionId: string): string =>
  `${sessionId}.${randomBytes(secretBytes).toString('base64url')}`;

/** The session id that a nonce contains. Undefined when the text is no nonce. */
export function sessionIdOf(nonce: string): string | undefined {
  const id = pattern.exec(nonce)?.[1];
  return id !== undefined && isUuid(id) ? id : undefined;
}
