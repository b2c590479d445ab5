import {
  authorOf,
  type ApplicationType,
  type DataOf,
  type Permission,
  type AccessRule,
} from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';

export interface ApplicationDetails {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
  readonly expiresAt: string | undefined;
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

function created(event: RecordedEvent): ApplicationState {
  const data = event.data as unknown as DataOf<'ApplicationCreated'>;
  const details: ApplicationDetails = {
    id: data.application_id,
    name: data.name,
    type: data.type,
    permissions: data.permissions,
    rules: data.rules as unknown as AccessRule[],
    expiresAt: data.expires_at,
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
      const data = event.data as unknown as DataOf<'ApplicationUpdated'>;
      const rules = data.rules as unknown as AccessRule[];
      return modified(state, event, { name: data.name, permissions: data.permissions, rules });
    }
    case 'ApplicationKeyRegenerated':
      return modified(state, event, {});
    case 'ApplicationDeleted':
    case 'ApplicationExpired':
      return { kind: 'ended' };
    default:
      return state;
  }
}
