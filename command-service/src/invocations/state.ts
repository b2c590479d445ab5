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
import type { EventStore, RecordedEvent } from '@token-vault/event-store';
import { load, type Loaded } from '../aggregates/decider.ts';
import { evolveBy, unchanged } from '../aggregates/evolve.ts';

interface Begun {
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
  /** The signature of `ReactorInvoked` or, after an upgrade, of `ReactorInvocationSigned` (ADR 20). */
  readonly signature: string | undefined;
}

/** The state of an invocation. Webhook deliveries come after the outcome and are not part of it. */
export type InvocationState =
  | { readonly kind: 'absent' }
  | ({ readonly kind: 'waiting' } & Begun)
  | ({ readonly kind: 'running'; readonly deadline: Date } & Begun)
  | ({ readonly kind: 'over'; readonly outcome: OutcomeEvent } & Begun);

export type OutcomeEvent = RecordedEvent<'ReactorSucceeded' | 'ReactorFailed'>;
export const isOutcome = (event: RecordedEvent): event is OutcomeEvent =>
  event.type === 'ReactorSucceeded' || event.type === 'ReactorFailed';

const initialState: InvocationState = { kind: 'absent' };

const over = (state: InvocationState, outcome: OutcomeEvent): InvocationState =>
  state.kind === 'absent' ? state : { ...state, kind: 'over', outcome };

const evolve = evolveBy<InvocationState, TypeIn<typeof invocationEvents>>({
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
  WebhookDelivered: unchanged,
  WebhookAttemptFailed: unchanged,
  WebhookGivenUp: unchanged,
  WebhookRedeliveryRequested: unchanged,
});

/**
 * The tokens that an invocation names decide about its repeats, so the record must be genuine. @throws
 * AlteredRecordError when the vault did not write it, or wrote it for another invocation (ADR 20)
 */
export function requireGenuine(
  id: string,
  { invoked, metadata, signature }: Begun,
  hashes: TenantHashes,
): void {
  const isGenuine = hashes.isBelieved(invocationStatement(invoked, metadata), signature);
  if (!isGenuine || invoked.invocation_id !== id) throw new AlteredRecordError('invocation');
}

export const loadInvocation = (
  store: Pick<EventStore, 'readStream'>,
  stream: string,
): Promise<Loaded<InvocationState>> => load(store, stream, { initialState, evolve });
