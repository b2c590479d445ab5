import {
  AlteredRecordError,
  invocationStatement,
  signatureOf,
  type DataOf,
  type EventMetadata,
  type invocationEvents,
  type TypeIn,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { evolveBy, unchanged, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { load, type Loaded } from '../aggregates/decider.ts';
import { requireSigned, type Signer } from '../aggregates/signing.ts';

interface Begun {
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
  /** The signature of `ReactorInvoked` or, after an upgrade, of `ReactorInvocationSigned` (ADR 20). */
  readonly signature: string | undefined;
}

export type InvocationState =
  | { readonly kind: 'absent' }
  | ({ readonly kind: 'waiting' } & Begun)
  | ({ readonly kind: 'running'; readonly deadline: Date } & Begun)
  | ({
      readonly kind: 'over';
      readonly outcome: OutcomeEvent;
      /** The callback URL has received the outcome. */
      readonly isDelivered: boolean;
    } & Begun);

export type OutcomeEvent = RecordedEvent<'ReactorSucceeded' | 'ReactorFailed'>;
export const isOutcome = (event: RecordedEvent): event is OutcomeEvent =>
  event.type === 'ReactorSucceeded' || event.type === 'ReactorFailed';

export const initialState: InvocationState = { kind: 'absent' };

const over = (state: InvocationState, outcome: OutcomeEvent): InvocationState =>
  state.kind === 'absent' ? state : { ...state, kind: 'over', outcome, isDelivered: false };

export const evolve = evolveBy<InvocationState, TypeIn<typeof invocationEvents>>({
  ReactorInvoked: (_before, event) => ({
    kind: 'waiting',
    invoked: event.data,
    metadata: event.metadata,
    signature: signatureOf(event),
  }),
  ReactorInvocationSigned: (state, event) =>
    state.kind === 'absent' ? state : { ...state, signature: signatureOf(event) },
  ReactorStarted: (state, event) =>
    state.kind === 'absent' ? state : { ...state, kind: 'running', deadline: new Date(event.data.deadline) },
  ReactorSucceeded: over,
  ReactorFailed: over,
  WebhookDelivered: (state) => (state.kind === 'over' ? { ...state, isDelivered: true } : state),
  WebhookAttemptFailed: unchanged,
  WebhookGivenUp: unchanged,
  WebhookRedeliveryRequested: unchanged,
});

export const invocationSigner: Signer<InvocationState> = {
  statementOf: (state) =>
    state.kind === 'absent' ? undefined : invocationStatement(state.invoked, state.metadata),
  signatureOf: (state) => (state.kind === 'absent' ? undefined : state.signature),
  isSignedLate: true,
};

/**
 * The tokens that an invocation names decide about its repeats, so the record must be genuine. @throws
 * AlteredRecordError when the vault did not write it, or wrote it for another invocation (ADR 20)
 */
export function requireGenuine(id: string, state: InvocationState, hashes: TenantHashes): void {
  requireSigned(invocationSigner, state, hashes);
  if (state.kind !== 'absent' && state.invoked.invocation_id !== id)
    throw new AlteredRecordError('invocation');
}

export const loadInvocation = (
  store: Pick<EventStore, 'readStream'>,
  stream: string,
): Promise<Loaded<InvocationState>> => load(store, stream, { initialState, evolve });
