import {
  ConflictError,
  NotFoundError,
  TokenCreated,
  TokenCvcPurged,
  TokenDeleted,
  TokenExpired,
  TokenSigned,
  TokenUpdated,
  type TokenContent,
  type VaultEvent,
  type TokenType,
  type Transform,
} from '@token-vault/contracts';
import { keyIdOf } from '@token-vault/crypto';
import type { TokenDetails } from '@token-vault/tokens';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, isExpired, type TokenState } from './state.ts';

export type TokenCommand =
  | {
      readonly kind: 'create';
      readonly id: string;
      readonly type: TokenType;
      readonly content: TokenContent;
      readonly shown?: Transform | undefined;
      readonly now: Date;
    }
  | {
      readonly kind: 'update';
      readonly content: TokenContent;
      /** The transform of the answer, for the log. Undefined when the answer has a record of its own. */
      readonly shown?: Transform | undefined;
      readonly now: Date;
    }
  | { readonly kind: 'delete'; readonly now: Date }
  | { readonly kind: 'expire'; readonly now: Date }
  | { readonly kind: 'purge-cvc'; readonly now: Date }
  | { readonly kind: 'lose-key'; readonly keyId: string; readonly now: Date }
  /** Signs a token of a release that did not sign tokens: see `upgrade/`. */
  | { readonly kind: 'sign' };

export function requirePresent(state: TokenState, now: Date): TokenDetails {
  if (state.kind !== 'present' || isExpired(state.details, now)) throw new NotFoundError('The token');
  return state.details;
}

/** The ids of the data keys whose destruction the event (or the fact that will become it) has decided. */
export const decidedKeyIds = ({ data }: Pick<Fact | VaultEvent, 'data'>): readonly string[] =>
  ('key_ids' in data && data.key_ids) || [];

/** The ids of the data keys that seal the content of a token. */
export function keyIdsOf(content: TokenContent): string[] {
  const sealed = [content.data, content.cvc].filter((value) => value !== undefined);
  return [...new Set(sealed.map((value) => keyIdOf(value)))];
}

const ended = ({ id, type, content }: TokenDetails) => ({
  token_id: id,
  token_type: type,
  key_ids: keyIdsOf(content),
});

const withTransform = (shown: Transform | undefined) => (shown === undefined ? {} : { shown });

/** An id is taken while its token lives. After deletion or expiry the id may be used again. */
function create(state: TokenState, command: Extract<TokenCommand, { kind: 'create' }>): Fact[] {
  const { id: token_id, type: token_type, content, shown } = command;
  const created = fact(TokenCreated, { token_id, token_type, ...content, ...withTransform(shown) });
  if (state.kind !== 'present') return [created];
  if (!isExpired(state.details, command.now))
    throw new ConflictError('token_id_taken', 'The token id is taken.');
  return [fact(TokenExpired, ended(state.details)), created];
}

/** The event holds the whole content of the token, so that no event before it need be read. */
function update(details: TokenDetails, command: Extract<TokenCommand, { kind: 'update' }>): Fact {
  const { id: token_id, type: token_type, createdBy: created_by, createdAt: created_at } = details;
  const kept = new Set(keyIdsOf(command.content));
  const key_ids = keyIdsOf(details.content).filter((keyId) => !kept.has(keyId));
  const origin = { created_by, created_at, key_ids };
  return fact(TokenUpdated, {
    token_id,
    token_type,
    ...command.content,
    ...withTransform(command.shown),
    ...origin,
  });
}

function expire(state: TokenState, now: Date): Fact[] {
  return state.kind === 'present' && isExpired(state.details, now)
    ? [fact(TokenExpired, ended(state.details))]
    : [];
}

function purgeCvc(state: TokenState, now: Date): Fact[] {
  if (state.kind !== 'present') return [];
  const { id, type, content } = state.details;
  if (content.cvc === undefined || content.cvc_expires_at === undefined) return [];
  if (Date.parse(content.cvc_expires_at) > now.getTime()) return [];
  return [cvcPurged(id, type, keyIdOf(content.cvc))];
}

const cvcPurged = (id: string, type: TokenType, keyId: string): Fact =>
  fact(TokenCvcPurged, { token_id: id, token_type: type, key_ids: [keyId] });

/**
 * A data key of the token is destroyed, but the log does not say so: the part that cannot be opened any more is
 * ended.
 */
function loseKey(state: TokenState, keyId: string, now: Date): Fact[] {
  if (state.kind !== 'present') return [];
  const { id, type, content } = state.details;
  if (keyIdOf(content.data) === keyId)
    return isExpired(state.details, now) ? expire(state, now) : [fact(TokenDeleted, ended(state.details))];
  const isCvc = content.cvc !== undefined && keyIdOf(content.cvc) === keyId;
  return isCvc ? [cvcPurged(id, type, keyId)] : [];
}

function sign(state: TokenState): Fact[] {
  if (state.kind !== 'present' || state.details.content.signature !== undefined) return [];
  return [fact(TokenSigned, { token_id: state.details.id, token_type: state.details.type })];
}

function decide(state: TokenState, command: TokenCommand): readonly Fact[] {
  switch (command.kind) {
    case 'create':
      return create(state, command);
    case 'update': {
      return [update(requirePresent(state, command.now), command)];
    }
    case 'delete':
      return [fact(TokenDeleted, ended(requirePresent(state, command.now)))];
    case 'expire':
      return expire(state, command.now);
    case 'purge-cvc':
      return purgeCvc(state, command.now);
    case 'lose-key':
      return loseKey(state, command.keyId, command.now);
    case 'sign':
      return sign(state);
  }
}

export const tokenDecider: Decider<TokenState, TokenCommand> = { initialState, evolve, decide };
