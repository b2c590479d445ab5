import {
  authorOf,
  signatureOf,
  type TokenContent,
  type tokenEvents,
  type TokenType,
  type TypeIn,
} from '@token-vault/contracts';
import { evolveBy, unchanged, type RecordedEvent } from '@token-vault/event-store';
import type { TokenDetails } from '@token-vault/tokens';

export type TokenState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'present'; readonly details: TokenDetails };

export const initialState: TokenState = { kind: 'absent' };

/** A signature counts only for the event's own place in the stream. */
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

const ended = (): TokenState => ({ kind: 'ended' });

/** Claims of fingerprints have streams of their own. */
type TokenEventType = Exclude<TypeIn<typeof tokenEvents>, `Fingerprint${string}`>;

export const evolve = evolveBy<TokenState, TokenEventType>({
  TokenCreated: (_before, event) => created(event),
  TokenUpdated: updated,
  TokenCvcPurged: purged,
  TokenSigned: (state, event) =>
    state.kind === 'present'
      ? { kind: 'present', details: { ...state.details, content: signedAt(event, state.details.content) } }
      : state,
  TokenKeysAbandoned: unchanged,
  TokenDeleted: ended,
  TokenExpired: ended,
});

/** An expired token counts as absent, also before the sweeper has ended it (rules.md §3). */
export function isExpired(
  { content: { expires_at: expiresAt } }: { readonly content: Pick<TokenContent, 'expires_at'> },
  now: Date,
): boolean {
  return expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime();
}

/** Whether a live token has this fingerprint now. It may have changed since the claim. */
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
