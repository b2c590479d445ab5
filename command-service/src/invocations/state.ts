import type { DataOf } from '@token-vault/contracts';
import { noRevision, type EventStore, type RecordedEvent } from '@token-vault/event-store';

/** An invocation so far. Webhook deliveries come after the outcome and are not part of it. */
export type InvocationState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'waiting'; readonly invoked: DataOf<'ReactorInvoked'> }
  | { readonly kind: 'running'; readonly invoked: DataOf<'ReactorInvoked'>; readonly deadline: Date }
  | {
      readonly kind: 'over';
      readonly invoked: DataOf<'ReactorInvoked'>;
      readonly outcome: OutcomeEvent;
    };

export type OutcomeEvent = RecordedEvent<'ReactorSucceeded' | 'ReactorFailed'>;
export const isOutcome = (event: RecordedEvent): event is OutcomeEvent =>
  event.type === 'ReactorSucceeded' || event.type === 'ReactorFailed';

export function evolve(state: InvocationState, event: RecordedEvent): InvocationState {
  if (event.type === 'ReactorInvoked') {
    return { kind: 'waiting', invoked: event.data };
  }
  if (state.kind === 'absent') return state;
  const { invoked } = state;
  if (isOutcome(event)) return { kind: 'over', invoked, outcome: event };
  if (event.type === 'ReactorStarted') {
    const { deadline } = event.data;
    return { kind: 'running', invoked, deadline: new Date(deadline) };
  }
  return state;
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
