import { authorOf, signatureOf, type TokenContent, type TokenType } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';

export interface TokenDetails {
  readonly id: string;
  readonly type: TokenType;
  readonly content: TokenContent;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly modifiedBy: string | undefined;
  readonly modifiedAt: string | undefined;
}

export type TokenState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'present'; readonly details: TokenDetails };

export const initialState: TokenState = { kind: 'absent' };

/** Only a signature for the event's own place in the stream is one. */
const signedAt = (event: RecordedEvent, content: TokenContent): TokenContent => {
  const { signature: _given, ...rest } = content;
  const signature = signatureOf(event);
  return signature === undefined ? rest : { ...rest, signature };
};

function created(event: RecordedEvent<'TokenCreated'>): TokenState {
  const { token_id: id, token_type: type, shown: _shown, ...content } = event.data;
  const { occurred_at: createdAt } = event.metadata;
  const details: TokenDetails = {
    id,
    type: type as TokenType,
    content: signedAt(event, content),
    createdBy: authorOf(event.metadata),
    createdAt,
    modifiedBy: undefined,
    modifiedAt: undefined,
  };
  return { kind: 'present', details };
}

function updated(state: TokenState, event: RecordedEvent<'TokenUpdated'>): TokenState {
  const {
    token_id: id,
    token_type: type,
    shown: _shown,
    key_ids: _keyIds,
    created_by: createdBy,
    created_at: createdAt,
    ...content
  } = event.data;
  const modified = {
    content: signedAt(event, content),
    modifiedBy: authorOf(event.metadata),
    modifiedAt: event.metadata.occurred_at,
  };
  if (createdBy !== undefined && createdAt !== undefined)
    return { kind: 'present', details: { id, type: type as TokenType, createdBy, createdAt, ...modified } };
  return state.kind === 'present' ? { kind: 'present', details: { ...state.details, ...modified } } : state;
}

function purged(state: TokenState, event: RecordedEvent): TokenState {
  if (state.kind !== 'present') return state;
  const { cvc: _cvc, cvc_expires_at: _expiry, ...content } = state.details.content;
  return { kind: 'present', details: { ...state.details, content: signedAt(event, content) } };
}

export function evolve(state: TokenState, event: RecordedEvent): TokenState {
  switch (event.type) {
    case 'TokenCreated':
      return created(event);
    case 'TokenUpdated':
      return updated(state, event);
    case 'TokenCvcPurged':
      return purged(state, event);
    case 'TokenSigned':
      return state.kind === 'present'
        ? { kind: 'present', details: { ...state.details, content: signedAt(event, state.details.content) } }
        : state;
    case 'TokenDeleted':
    case 'TokenExpired':
      return { kind: 'ended' };
    default:
      return state;
  }
}

/** From its expiry a token is gone, even when nobody has swept it yet (rules.md §3). */
export function isExpired(details: TokenDetails, now: Date): boolean {
  const { expires_at: expiresAt } = details.content;
  return expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime();
}

/** Whether a live token has this fingerprint now; it may have changed since it claimed it. */
export function hasFingerprint(
  state: TokenState,
  fingerprint: string,
  now: Date,
): state is Extract<TokenState, { kind: 'present' }> {
  return (
    state.kind === 'present' &&
    !isExpired(state.details, now) &&
    state.details.content.fingerprint === fingerprint
  );
}
