import {
  authorOf,
  proxyStatement,
  signatureOf,
  type ProxyCreated,
  type DataOf,
} from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { evolveBy, type RecordedEvent } from '@token-vault/event-store';
import type { OtherKey } from '../applications/state.ts';
import type { Signer } from '../aggregates/signing.ts';

/** The content of a proxy as its author gives it. The configuration holds credentials of third parties, so it is sealed. */
export interface ProxyContent {
  readonly name: string;
  /** Scheme, host, port and base path, without a slash at the end. */
  readonly destination: string;
  readonly destinations: readonly string[];
  readonly requestCode: string | undefined;
  readonly responseCode: string | undefined;
  readonly requireAuth: boolean;
  readonly configuration: SealedValue;
  readonly applicationId: string | undefined;
}

export interface ProxyDetails extends ProxyContent {
  readonly id: string;
  /** Its own keys, also expired ones until the next change of keys. */
  readonly keys: readonly OtherKey[];
  /** Hashes of deleted keys. A request with one is refused, and the log records its use. */
  readonly retiredHashes: readonly string[];
  /** Signature of the fields above, except `retiredHashes`. */
  readonly signature: string | undefined;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly modifiedBy: string | undefined;
  readonly modifiedAt: string | undefined;
}

export type ProxyState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'active'; readonly details: ProxyDetails };

export const initialState: ProxyState = { kind: 'absent' };

const contentOf = (data: DataOf<typeof ProxyCreated.type>): ProxyContent => ({
  name: data.name,
  destination: data.destination,
  destinations: data.destinations,
  requestCode: data.request_code,
  responseCode: data.response_code,
  requireAuth: data.require_auth,
  configuration: data.configuration,
  applicationId: data.application_id,
});

function changed(state: ProxyState, event: RecordedEvent, changes: Partial<ProxyDetails>): ProxyState {
  if (state.kind !== 'active') return state;
  const modified = { modifiedBy: authorOf(event.metadata), modifiedAt: event.metadata.occurred_at };
  const signature = signatureOf(event);
  return { kind: 'active', details: { ...state.details, ...changes, ...modified, signature } };
}

function withKeys(state: ProxyState, event: RecordedEvent<'ProxyKeyAdded' | 'ProxyKeyDeleted'>): ProxyState {
  if (state.kind !== 'active') return state;
  const { keys } = event.data;
  const { keys: before, retiredHashes } = state.details;
  const gone = before.filter(({ hash }) => keys.every((key) => key.hash !== hash));
  return changed(state, event, {
    keys,
    retiredHashes: [...retiredHashes, ...gone.map(({ hash }) => hash)],
  });
}

export const evolve = evolveBy<
  ProxyState,
  'ProxyCreated' | 'ProxyUpdated' | 'ProxyKeyAdded' | 'ProxyKeyDeleted' | 'ProxyDeleted'
>({
  ProxyCreated: (_before, event) => ({
    kind: 'active',
    details: {
      id: event.data.proxy_id,
      ...contentOf(event.data),
      keys: [],
      retiredHashes: [],
      signature: signatureOf(event),
      createdBy: authorOf(event.metadata),
      createdAt: event.metadata.occurred_at,
      modifiedBy: undefined,
      modifiedAt: undefined,
    },
  }),
  ProxyUpdated: (state, event) => changed(state, event, contentOf(event.data)),
  ProxyKeyAdded: withKeys,
  ProxyKeyDeleted: withKeys,
  ProxyDeleted: () => ({ kind: 'deleted' }),
});

export const proxySigner: Signer<ProxyState> = {
  statementOf: (state) => (state.kind === 'active' ? proxyStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
};
