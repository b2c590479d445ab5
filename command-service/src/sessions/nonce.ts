import { randomBytes } from 'node:crypto';
import { isUuid } from '@token-vault/contracts';

/** 192 bits: a nonce cannot be guessed within its three minutes, nor ever. */
const secretBytes = 24;
const pattern = /^([\da-f-]{36})\.[\w-]{32}$/;

/**
 * `<session id>.<32 base64url characters>`. The nonce carries the session's id, so that authorizing looks the session up in
 * the log itself and not in a read model that may not know it yet.
 */
export const generateNonce = (sessionId: string): string =>
  `${sessionId}.${randomBytes(secretBytes).toString('base64url')}`;

/** The session a nonce claims to be of; undefined when it is no nonce. */
export function sessionIdOf(nonce: string): string | undefined {
  const id = pattern.exec(nonce)?.[1];
  return id !== undefined && isUuid(id) ? id : undefined;
}
