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
      readonly outcome: RecordedEvent;
    };

export const outcomeTypes: ReadonlySet<string> = new Set(['ReactorSucceeded', 'ReactorFailed']);

export function evolve(state: InvocationState, event: RecordedEvent): InvocationState {
  if (event.type === 'ReactorInvoked') {
    return { kind: 'waiting', invoked: event.data as unknown as DataOf<'ReactorInvoked'> };
  }
  if (state.kind === 'absent') return state;
  const { invoked } = state;
  if (outcomeTypes.has(event.type)) return { kind: 'over', invoked, outcome: event };
  if (event.type === 'ReactorStarted') {
    const { deadline } = event.data as unknown as DataOf<'ReactorStarted'>;
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
