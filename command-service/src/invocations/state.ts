import {
  AlteredRecordError,
  invocationStatement,
  signatureOf,
  type DataOf,
  type EventMetadata,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { noRevision, type EventStore, type RecordedEvent } from '@token-vault/event-store';

interface Begun {
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
  /** Of `ReactorInvoked` or, after an upgrade, of `ReactorInvocationSigned` (ADR 20). */
  readonly signature: string | undefined;
}

/** An invocation so far. Webhook deliveries come after the outcome and are not part of it. */
export type InvocationState =
  | { readonly kind: 'absent' }
  | ({ readonly kind: 'waiting' } & Begun)
  | ({ readonly kind: 'running'; readonly deadline: Date } & Begun)
  | ({ readonly kind: 'over'; readonly outcome: OutcomeEvent } & Begun);

export type OutcomeEvent = RecordedEvent<'ReactorSucceeded' | 'ReactorFailed'>;
export const isOutcome = (event: RecordedEvent): event is OutcomeEvent =>
  event.type === 'ReactorSucceeded' || event.type === 'ReactorFailed';

export function evolve(state: InvocationState, event: RecordedEvent): InvocationState {
  if (event.type === 'ReactorInvoked') {
    const { data: invoked, metadata } = event;
    return { kind: 'waiting', invoked, metadata, signature: signatureOf(event) };
  }
  if (state.kind === 'absent') return state;
  if (isOutcome(event)) return { ...state, kind: 'over', outcome: event };
  switch (event.type) {
    case 'ReactorInvocationSigned':
      return { ...state, signature: signatureOf(event) };
    case 'ReactorStarted':
      return { ...state, kind: 'running', deadline: new Date(event.data.deadline) };
    default:
      return state;
  }
}

/**
 * The tokens that an invocation names decide about its repeats. @throws AlteredRecordError when the vault did not write it, or wrote it
 * for another invocation (ADR 20)
 */
export function requireGenuine(
  id: string,
  { invoked, metadata, signature }: Begun,
  hashes: TenantHashes,
): void {
  const isGenuine = hashes.isBelieved(invocationStatement(invoked, metadata), signature);
  if (!isGenuine || invoked.invocation_id !== id) throw new AlteredRecordError('invocation');
}

export async function loadInvocation(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
): Promise<{ readonly state: InvocationState; readonly revision: number }> {
  let state: InvocationState = { kind: 'absent' };
  let revision = noRevision;
  for await (const event of store.readStream(stream)) {
    state = evolve(state, event);
    revision = event.revision;
  }
  return { state, revision };
}
