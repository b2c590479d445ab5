import {
  type AccessRule,
  type applicationEvents,
  applicationStatement,
  type ApplicationType,
  authorOf,
  type Permission,
  signatureOf,
  type TypeIn,
} from '@token-vault/contracts';
import { evolveBy, type RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

/** A key besides the main one, as events and rows have it. */
export interface OtherKey {
  readonly id: string;
  /** SHA-256, hex. */
  readonly hash: string;
  readonly created_at: string;
  readonly expires_at?: string | undefined;
}

export interface ApplicationDetails {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
  readonly expiresAt: string | undefined;
  /** SHA-256 (hex) of the main key, which create and regenerate give. Undefined when it was deleted. */
  readonly keyHash: string | undefined;
  /** Undefined for a main key that was made with the application, or by an older release: it has the application's id. */
  readonly keyId: string | undefined;
  readonly keyCreatedAt: string;
  /** All keys but the main one, also expired ones until the next change of keys. */
  readonly keys: readonly OtherKey[];
  /** The signature of the fields above. Undefined in a log that an older release wrote. */
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
    rules: data.rules,
    expiresAt: data.expires_at,
    keyHash: data.key_hash,
    keyId: undefined,
    keyCreatedAt: event.metadata.occurred_at,
    keys: [],
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

const ended = (): ApplicationState => ({ kind: 'ended' });

export const evolve = evolveBy<ApplicationState, TypeIn<typeof applicationEvents>>({
  ApplicationCreated: (_before, event) => created(event),
  ApplicationUpdated(state, event) {
    const { name, permissions, rules: stored } = event.data;
    const rules = stored;
    return modified(state, event, { name, permissions, rules, signature: signatureOf(event) });
  },
  ApplicationKeyRegenerated(state, event) {
    const { key_hash: keyHash, key_id: keyId, keys } = event.data;
    const keyCreatedAt = event.metadata.occurred_at;
    const signature = signatureOf(event);
    return modified(state, event, { keyHash, keyId, keyCreatedAt, ...(keys && { keys }), signature });
  },
  ApplicationKeyAdded: (state, event) =>
    modified(state, event, { keys: event.data.keys, signature: signatureOf(event) }),
  ApplicationKeyDeleted(state, event) {
    const { was_main: wasMain, keys } = event.data;
    const signature = signatureOf(event);
    return modified(state, event, {
      keys,
      ...(wasMain && { keyHash: undefined, keyId: undefined }),
      signature,
    });
  },
  ApplicationSigned: (state, event) =>
    state.kind === 'active'
      ? { kind: 'active', details: { ...state.details, signature: signatureOf(event) } }
      : state,
  ApplicationDeleted: ended,
  ApplicationExpired: ended,
});

export const applicationSigner: Signer<ApplicationState> = {
  statementOf: (state) => (state.kind === 'active' ? applicationStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
};
