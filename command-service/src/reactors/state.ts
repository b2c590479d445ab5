import { authorOf } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';

/** What a reactor is made of; the configuration holds credentials of third parties, so it is sealed. */
export interface ReactorContent {
  readonly name: string;
  readonly code: string;
  readonly configuration: SealedValue;
  readonly applicationId: string | undefined;
}

export interface ReactorDetails extends ReactorContent {
  readonly id: string;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly modifiedBy: string | undefined;
  readonly modifiedAt: string | undefined;
}

export type ReactorState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'active'; readonly details: ReactorDetails };

export const initialState: ReactorState = { kind: 'absent' };

const contentOf = ({ data }: RecordedEvent<'ReactorCreated' | 'ReactorUpdated'>): ReactorContent => {
  const { name, code, configuration, application_id: applicationId } = data;
  return { name, code, configuration: configuration as SealedValue, applicationId };
};

export function evolve(state: ReactorState, event: RecordedEvent): ReactorState {
  const { occurred_at: occurredAt } = event.metadata;
  switch (event.type) {
    case 'ReactorCreated': {
      const { reactor_id: id } = event.data;
      const made = {
        createdBy: authorOf(event.metadata),
        createdAt: occurredAt,
        modifiedBy: undefined,
        modifiedAt: undefined,
      };
      return { kind: 'active', details: { id, ...contentOf(event), ...made } };
    }
    case 'ReactorUpdated': {
      if (state.kind !== 'active') return state;
      const modified = { modifiedBy: authorOf(event.metadata), modifiedAt: occurredAt };
      return { kind: 'active', details: { ...state.details, ...contentOf(event), ...modified } };
    }
    case 'ReactorDeleted':
      return { kind: 'deleted' };
    default:
      return state;
  }
}
