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

/** How long a nonce may be used (rules.md §7). */
export const nonceLifetimeMs = 3 * 60 * 1000;
/** How long a session lives unless its authorizer says otherwise: long enough for a person at a form. */
export const sessionLifetimeMs = 60 * 60 * 1000;
/** The longest an authorizer may ask for. A session key lives in a browser, where an application key must not. */
export const maxSessionLifetimeMs = 24 * 60 * 60 * 1000;

export type SessionCommand =
  | {
      readonly kind: 'open';
      readonly id: string;
      readonly applicationId: string;
      readonly keyHash: string;
      readonly nonceHash: string;
      readonly expiresAt: string;
    }
  | {
      readonly kind: 'authorize';
      readonly nonceHash: string;
      /** The private application that grants. */
      readonly authorizer: Principal;
      readonly permissions: readonly Permission[];
      readonly rules: readonly AccessRule[];
      /** RFC 3339; the default lifetime when absent. */
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

/** Who does not know the nonce learns nothing of the session, not even that it is there. */
function authorize(state: SessionState, command: Authorize): Fact[] {
  const isKnown =
    (state.kind === 'open' || state.kind === 'authorized') && equalHashes(state.nonceHash, command.nonceHash);
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
