import { authorOf, reactorStatement, signatureOf } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

/** What a reactor is made of; the configuration holds credentials of third parties, so it is sealed. */
export interface ReactorContent {
  readonly name: string;
  readonly code: string;
  readonly configuration: SealedValue;
  readonly applicationId: string | undefined;
}

export interface ReactorDetails extends ReactorContent {
  readonly id: string;
  /** Signature of the reactor's content; undefined in a log that an older release wrote. */
  readonly signature: string | undefined;
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

const contentOf = (
  event: RecordedEvent<'ReactorCreated' | 'ReactorUpdated'>,
): ReactorContent & Pick<ReactorDetails, 'signature'> => {
  const { data } = event;
  const { name, code, configuration, application_id: applicationId } = data;
  return {
    name,
    code,
    configuration: configuration as SealedValue,
    applicationId,
    signature: signatureOf(event),
  };
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
    case 'ReactorSigned':
      return state.kind === 'active'
        ? { kind: 'active', details: { ...state.details, signature: signatureOf(event) } }
        : state;
    case 'ReactorDeleted':
      return { kind: 'deleted' };
    default:
      return state;
  }
}

export const reactorSigner: Signer<ReactorState> = {
  statementOf: (state) => (state.kind === 'active' ? reactorStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
  isSignedLate: true,
};
