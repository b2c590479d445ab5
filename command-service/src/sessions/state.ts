import { sessionStatement, signatureOf, type AccessRule, type Permission } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

interface SessionDetails {
  readonly id: string;
  readonly applicationId: string;
  /** SHA-256 (hex) of the session's key. */
  readonly keyHash: string;
  /** SHA-256 (hex) of the nonce. */
  readonly nonceHash: string;
  /** Of the nonce while the session is open, of the session key once it is authorized. */
  readonly expiresAt: string;
}

export type SessionState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ended' }
  | ({ readonly kind: 'open' } & SessionDetails)
  | ({
      readonly kind: 'authorized';
      readonly authorizedBy: string;
      readonly permissions: readonly Permission[];
      readonly rules: readonly AccessRule[];
      readonly signature: string | undefined;
    } & SessionDetails);

export const initialState: SessionState = { kind: 'absent' };

export function evolve(state: SessionState, event: RecordedEvent): SessionState {
  switch (event.type) {
    case 'SessionOpened': {
      const data = event.data;
      return {
        kind: 'open',
        id: data.session_id,
        applicationId: data.application_id,
        keyHash: data.key_hash,
        nonceHash: data.nonce_hash,
        expiresAt: data.expires_at,
      };
    }
    case 'SessionAuthorized': {
      if (state.kind !== 'open') return state;
      const data = event.data;
      return {
        ...state,
        kind: 'authorized',
        expiresAt: data.expires_at,
        authorizedBy: data.authorized_by,
        permissions: data.permissions,
        rules: data.rules as unknown as AccessRule[],
        signature: signatureOf(event),
      };
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

/** A session may do something once it is authorized, not before. */
export const sessionSigner: Signer<SessionState> = {
  statementOf: (state) => (state.kind === 'authorized' ? sessionStatement(state) : undefined),
  signatureOf: (state) => (state.kind === 'authorized' ? state.signature : undefined),
};
