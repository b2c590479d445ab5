import { checkSessionGrants, type Principal } from '@token-vault/access';
import {
  ConflictError,
  NotFoundError,
  SessionAuthorized,
  SessionExpired,
  SessionOpened,
  ValidationError,
  type AccessRule,
  type Permission,
} from '@token-vault/contracts';
import { equalHashes } from '@token-vault/crypto';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, isOver, type SessionState } from './state.ts';

/** The lifetime of a nonce (rules.md §7). */
export const nonceLifetimeMs = 3 * 60 * 1000;
/** The default lifetime of a session: long enough for a person who fills in a form. */
export const sessionLifetimeMs = 60 * 60 * 1000;
/**
 * The longest lifetime that an authorizer may ask for. A session key lives in a browser, where an application key may
 * not be.
 */
export const maxSessionLifetimeMs = 24 * 60 * 60 * 1000;

export type SessionCommand =
  | {
      readonly kind: 'open';
      readonly id: string;
      readonly applicationId: string;
      readonly keyHash: string;
      readonly nonceHash: string;
      /** SHA-256 (hex) of the key by which the application calls. */
      readonly openerKeyHash: string;
      readonly expiresAt: string;
    }
  | {
      readonly kind: 'authorize';
      readonly nonceHash: string;
      /** The private application that grants the permissions. */
      readonly authorizer: Principal;
      /** SHA-256 (hex) of the key by which it calls. */
      readonly authorizerKeyHash: string;
      readonly permissions: readonly Permission[];
      readonly rules: readonly AccessRule[];
      /** RFC 3339. When absent, the default lifetime applies. */
      readonly expiresAt: string | undefined;
      readonly now: Date;
    }
  | { readonly kind: 'expire'; readonly now: Date };

type Authorize = Extract<SessionCommand, { kind: 'authorize' }>;

/** @throws ValidationError unless the session ends after now and within a day. */
function expiryOf({ expiresAt, now }: Authorize): string {
  if (expiresAt === undefined) return new Date(now.getTime() + sessionLifetimeMs).toISOString();
  const time = Date.parse(expiresAt);
  if (!(time > now.getTime())) throw ValidationError.of('expires_at', 'must lie in the future');
  if (time > now.getTime() + maxSessionLifetimeMs) {
    throw ValidationError.of('expires_at', 'must lie within 24 hours');
  }
  return expiresAt;
}

/** @throws ValidationError when nothing is granted, or more than the authorizer holds. */
function requireGrants({ authorizer, permissions, rules }: Authorize): void {
  if (permissions.length + rules.length === 0) {
    throw ValidationError.of('permissions', 'permissions or rules must be given');
  }
  const errors = checkSessionGrants(authorizer, { permissions, rules });
  if (Object.keys(errors).length > 0) throw new ValidationError(errors);
}

/**
 * A caller that does not know the nonce gets the same error as for a missing session, so that it learns nothing about
 * the session. So does the caller that authorises a session of an older release, which no key could use.
 */
function authorize(state: SessionState, command: Authorize): Fact[] {
  const isKnown =
    (state.kind === 'open' || state.kind === 'authorized') &&
    state.openerKeyHash !== undefined &&
    !(state.kind === 'open' && state.signature === undefined) &&
    equalHashes(state.nonceHash, command.nonceHash);
  if (!isKnown || isOver(state, command.now)) throw new NotFoundError('The nonce');
  if (state.kind === 'authorized') {
    throw new ConflictError('session_already_authorized', 'The session is authorized already.');
  }
  requireGrants(command);
  return [
    fact(SessionAuthorized, {
      session_id: state.id,
      authorized_by: command.authorizer.applicationId,
      permissions: command.permissions,
      rules: command.rules,
      expires_at: expiryOf(command),
      authorizer_key_hash: command.authorizerKeyHash,
    }),
  ];
}

function open(state: SessionState, command: Extract<SessionCommand, { kind: 'open' }>): Fact[] {
  if (state.kind !== 'absent') throw new ConflictError('conflict', 'The session exists already.');
  return [
    fact(SessionOpened, {
      session_id: command.id,
      application_id: command.applicationId,
      key_hash: command.keyHash,
      nonce_hash: command.nonceHash,
      expires_at: command.expiresAt,
      opener_key_hash: command.openerKeyHash,
    }),
  ];
}

function decide(state: SessionState, command: SessionCommand): readonly Fact[] {
  switch (command.kind) {
    case 'open':
      return open(state, command);
    case 'authorize':
      return authorize(state, command);
    case 'expire':
      return 'id' in state && isOver(state, command.now)
        ? [fact(SessionExpired, { session_id: state.id })]
        : [];
  }
}

export const sessionDecider: Decider<SessionState, SessionCommand> = { initialState, evolve, decide };
