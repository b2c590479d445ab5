import { canonical, type StatedGrants, type Statement } from './statements.ts';

/** A session that is not authorised yet, so that an authoriser cannot grant rights to a key that an attacker has put into its record. */
export interface StatedOpening {
  readonly id: string;
  readonly applicationId: string;
  /** SHA-256 (hex) of the session's key. */
  readonly keyHash: string;
  /** SHA-256 (hex) of the nonce. */
  readonly nonceHash: string;
  /** SHA-256 (hex) of the key by which the application opened the session. Undefined for a session of an older release. */
  readonly openerKeyHash: string | undefined;
  /** The end of the nonce while the session is open, of the session key once it is authorized. */
  readonly expiresAt: string;
}

export const openedSessionStatement = (session: StatedOpening): Statement => ({
  kind: 'opened session',
  texts: [
    session.id,
    session.applicationId,
    session.keyHash,
    session.nonceHash,
    session.openerKeyHash ?? '',
    session.expiresAt,
  ],
});

/** The grants of an authorised session; an unauthorised session has none. */
export interface StatedSession extends StatedGrants {
  readonly id: string;
  readonly applicationId: string;
  readonly keyHash: string;
  readonly authorizedBy: string;
  readonly expiresAt: string;
  /** The keys by which the two applications opened and authorised it. A session of an older release has none, and is not valid. */
  readonly openerKeyHash: string | null | undefined;
  readonly authorizerKeyHash: string | null | undefined;
}

export const sessionStatement = (session: StatedSession): Statement => ({
  kind: 'session',
  texts: [
    session.id,
    session.applicationId,
    session.keyHash,
    session.authorizedBy,
    canonical(session.permissions),
    canonical(session.rules),
    session.expiresAt,
    session.openerKeyHash ?? '',
    session.authorizerKeyHash ?? '',
  ],
});

export interface StatedConsoleSession {
  readonly id: string;
  readonly secretHash: string;
  readonly members: readonly object[];
  readonly endsAt: string;
  readonly expiresAt: string;
}

export const consoleSessionStatement = (session: StatedConsoleSession): Statement => ({
  kind: 'console session',
  texts: [session.id, session.secretHash, canonical(session.members), session.endsAt, session.expiresAt],
});
