import type { DataOf } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';

interface SessionDetails {
  readonly id: string;
  /** SHA-256 (hex) of the nonce. */
  readonly nonceHash: string;
  /** Of the nonce while the session is open, of the session key once it is authorized. */
  readonly expiresAt: string;
}

export type SessionState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ended' }
  | ({ readonly kind: 'open' } & SessionDetails)
  | ({ readonly kind: 'authorized' } & SessionDetails);

export const initialState: SessionState = { kind: 'absent' };

export function evolve(state: SessionState, event: RecordedEvent): SessionState {
  switch (event.type) {
    case 'SessionOpened': {
      const data = event.data as unknown as DataOf<'SessionOpened'>;
      const { session_id: id, nonce_hash: nonceHash, expires_at: expiresAt } = data;
      return { kind: 'open', id, nonceHash, expiresAt };
    }
    case 'SessionAuthorized': {
      if (state.kind !== 'open') return state;
      const { expires_at: expiresAt } = event.data as unknown as DataOf<'SessionAuthorized'>;
      return { ...state, kind: 'authorized', expiresAt };
    }
    case 'SessionExpired':
      return { kind: 'ended' };
    default:
      return state;
  }
}

export function isOver(state: SessionState, now: Date): boolean {
  return 'expiresAt' in state && Date.parse(state.expiresAt) <= now.getTime();
}
