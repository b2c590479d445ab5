import {
  authorOf,
  type reactorEvents,
  reactorStatement,
  signatureOf,
  type TypeIn,
} from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { evolveBy, type RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

/** The content of a reactor. The configuration holds credentials of third parties, so it is sealed. */
export interface ReactorContent {
  readonly name: string;
  readonly code: string;
  readonly configuration: SealedValue;
  readonly applicationId: string | undefined;
}

export interface ReactorDetails extends ReactorContent {
  readonly id: string;
  /** The revision of the event that set or signed the content last. Later ones may only have abandoned keys. */
  readonly revision: number;
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
): ReactorContent & Pick<ReactorDetails, 'signature' | 'revision'> => {
  const { data, revision } = event;
  const { name, code, configuration, application_id: applicationId } = data;
  return {
    name,
    code,
    configuration,
    applicationId,
    signature: signatureOf(event),
    revision,
  };
};

export const evolve = evolveBy<ReactorState, TypeIn<typeof reactorEvents>>({
  ReactorCreated(_before, event) {
    const { reactor_id: id } = event.data;
    const made = {
      createdBy: authorOf(event.metadata),
      createdAt: event.metadata.occurred_at,
      modifiedBy: undefined,
      modifiedAt: undefined,
    };
    return { kind: 'active', details: { id, ...contentOf(event), ...made } };
  },
  ReactorUpdated(state, event) {
    if (state.kind !== 'active') return state;
    const modified = { modifiedBy: authorOf(event.metadata), modifiedAt: event.metadata.occurred_at };
    return { kind: 'active', details: { ...state.details, ...contentOf(event), ...modified } };
  },
  ReactorSigned: (state, event) =>
    state.kind === 'active'
      ? {
          kind: 'active',
          details: { ...state.details, signature: signatureOf(event), revision: event.revision },
        }
      : state,
  ReactorDeleted: () => ({ kind: 'deleted' }),
});

export const reactorSigner: Signer<ReactorState> = {
  statementOf: (state) => (state.kind === 'active' ? reactorStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
  isSignedLate: true,
};
