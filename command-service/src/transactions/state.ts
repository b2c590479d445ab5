import type { DataOf } from '@token-vault/contracts';
import type { Position, RecordedEvent } from '@token-vault/event-store';

interface Opened {
  readonly createdBy: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  /** Tokens that were, or were about to be, written in it. */
  readonly tokenIds: ReadonlySet<string>;
}

export type TransactionState =
  | { readonly kind: 'absent' }
  | ({ readonly kind: 'open' } & Opened)
  | ({ readonly kind: 'committed'; readonly position: Position } & Opened)
  | ({ readonly kind: 'dropped' } & Opened);

export const initialState: TransactionState = { kind: 'absent' };

export function evolve(state: TransactionState, event: RecordedEvent): TransactionState {
  if (event.type === 'TransactionOpened') {
    const { expires_at: expiresAt } = event.data as unknown as DataOf<'TransactionOpened'>;
    const { actor, occurred_at: createdAt } = event.metadata;
    return { kind: 'open', createdBy: actor.id, createdAt, expiresAt, tokenIds: new Set() };
  }
  if (state.kind === 'absent') return state;
  switch (event.type) {
    case 'TransactionTokenEnlisted': {
      const { token_id: tokenId } = event.data as unknown as DataOf<'TransactionTokenEnlisted'>;
      return { ...state, tokenIds: new Set([...state.tokenIds, tokenId]) };
    }
    case 'TransactionCommitted':
      return { ...state, kind: 'committed', position: event.position };
    case 'TransactionRolledBack':
    case 'TransactionExpired':
      return { ...state, kind: 'dropped' };
    default:
      return state;
  }
}
