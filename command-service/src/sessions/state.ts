import {
  type AccessRule,
  openedSessionStatement,
  type Permission,
  type sessionEvents,
  sessionStatement,
  signatureOf,
  type StatedOpening,
  type Statement,
  type TypeIn,
} from '@token-vault/contracts';
import { evolveBy } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

export type SessionState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ended' }
  | ({
      readonly kind: 'open';
      /** Undefined for a session of an older release. */
      readonly signature: string | undefined;
    } & StatedOpening)
  | ({
      readonly kind: 'authorized';
      readonly authorizedBy: string;
      readonly authorizerKeyHash: string | undefined;
      readonly permissions: readonly Permission[];
      readonly rules: readonly AccessRule[];
      readonly signature: string | undefined;
    } & StatedOpening);

export const initialState: SessionState = { kind: 'absent' };

export const evolve = evolveBy<SessionState, TypeIn<typeof sessionEvents>>({
  SessionOpened(_before, event) {
    const { data } = event;
    return {
      kind: 'open',
      id: data.session_id,
      applicationId: data.application_id,
      keyHash: data.key_hash,
      nonceHash: data.nonce_hash,
      openerKeyHash: data.opener_key_hash,
      expiresAt: data.expires_at,
      signature: signatureOf(event),
    };
  },
  SessionAuthorized(state, event) {
    if (state.kind !== 'open') return state;
    const { data } = event;
    return {
      ...state,
      kind: 'authorized',
      expiresAt: data.expires_at,
      authorizedBy: data.authorized_by,
      authorizerKeyHash: data.authorizer_key_hash,
      permissions: data.permissions,
      rules: data.rules,
      signature: signatureOf(event),
    };
  },
  SessionExpired: () => ({ kind: 'ended' }),
});

export function isOver(state: SessionState, now: Date): boolean {
  return 'expiresAt' in state && Date.parse(state.expiresAt) <= now.getTime();
}

function statementOf(state: SessionState): Statement | undefined {
  if (state.kind === 'open') return openedSessionStatement(state);
  return state.kind === 'authorized' ? sessionStatement(state) : undefined;
}

export const sessionSigner: Signer<SessionState> = {
  statementOf,
  signatureOf: (state) => ('signature' in state ? state.signature : undefined),
};
