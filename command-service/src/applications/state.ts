import {
  type AccessRule,
  applicationStatement,
  type ApplicationType,
  authorOf,
  type Permission,
  signatureOf,
} from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

export interface ApplicationDetails {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
  readonly expiresAt: string | undefined;
  /** SHA-256 (hex) of the key. */
  readonly keyHash: string;
  /** Of all this; undefined in a log that an older release wrote. */
  readonly signature: string | undefined;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly modifiedBy: string | undefined;
  readonly modifiedAt: string | undefined;
}

export type ApplicationState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'active'; readonly details: ApplicationDetails };

export const initialState: ApplicationState = { kind: 'absent' };

function created(event: RecordedEvent<'ApplicationCreated'>): ApplicationState {
  const { data } = event;
  const details: ApplicationDetails = {
    id: data.application_id,
    name: data.name,
    type: data.type,
    permissions: data.permissions,
    rules: data.rules as unknown as AccessRule[],
    expiresAt: data.expires_at,
    keyHash: data.key_hash,
    signature: signatureOf(event),
    createdBy: authorOf(event.metadata),
    createdAt: event.metadata.occurred_at,
    modifiedBy: undefined,
    modifiedAt: undefined,
  };
  return { kind: 'active', details };
}

function modified(
  state: ApplicationState,
  event: RecordedEvent,
  changes: Partial<ApplicationDetails>,
): ApplicationState {
  if (state.kind !== 'active') return state;
  const { occurred_at: modifiedAt } = event.metadata;
  return {
    kind: 'active',
    details: { ...state.details, ...changes, modifiedBy: authorOf(event.metadata), modifiedAt },
  };
}

export function evolve(state: ApplicationState, event: RecordedEvent): ApplicationState {
  switch (event.type) {
    case 'ApplicationCreated':
      return created(event);
    case 'ApplicationUpdated': {
      const data = event.data;
      const rules = data.rules as unknown as AccessRule[];
      return modified(state, event, {
        name: data.name,
        permissions: data.permissions,
        rules,
        signature: signatureOf(event),
      });
    }
    case 'ApplicationKeyRegenerated': {
      const data = event.data;
      return modified(state, event, { keyHash: data.key_hash, signature: signatureOf(event) });
    }
    case 'ApplicationSigned':
      return state.kind === 'active'
        ? { kind: 'active', details: { ...state.details, signature: signatureOf(event) } }
        : state;
    case 'ApplicationDeleted':
    case 'ApplicationExpired':
      return { kind: 'ended' };
    default:
      return state;
  }
}

export const applicationSigner: Signer<ApplicationState> = {
  statementOf: (state) => (state.kind === 'active' ? applicationStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
};
