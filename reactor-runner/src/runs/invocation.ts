import { newId, type DataOf, type EventMetadata, type NewEvent } from '@token-vault/contracts';
import { noRevision, type EventStore, type RecordedEvent } from '@token-vault/event-store';

/** An invocation as a runner meets it. */
export interface Invocation {
  readonly tenantId: string;
  readonly id: string;
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
  /** Name of its stream. */
  readonly stream: string;
}

export function invocationOf(event: RecordedEvent): Invocation {
  const invoked = event.data as unknown as DataOf<'ReactorInvoked'>;
  const { metadata, stream } = event;
  return { tenantId: metadata.tenant_id, id: invoked.invocation_id, invoked, metadata, stream };
}

/** Everything that has happened to it. */
export interface InvocationHistory {
  readonly invocation: Invocation | undefined;
  readonly deadline: Date | undefined;
  readonly outcome: RecordedEvent | undefined;
  readonly attempts: number;
  /** When the next delivery is due; undefined before the outcome and after the last attempt. */
  readonly deliverAt: Date | undefined;
  readonly revision: number;
}

type Step = (history: InvocationHistory, event: RecordedEvent) => Partial<InvocationHistory>;

const outcome: Step = (_history, event) => ({
  outcome: event,
  deliverAt:
    (event.data as { mode?: unknown }).mode === 'async' ? new Date(event.metadata.occurred_at) : undefined,
});
const ended: Step = ({ attempts }) => ({ attempts: attempts + 1, deliverAt: undefined });

const steps: Readonly<Record<string, Step>> = {
  ReactorInvoked: (_history, event) => ({ invocation: invocationOf(event) }),
  ReactorStarted: (_history, event) => ({
    deadline: new Date((event.data as unknown as DataOf<'ReactorStarted'>).deadline),
  }),
  ReactorSucceeded: outcome,
  ReactorFailed: outcome,
  WebhookAttemptFailed: ({ attempts }, event) => ({
    attempts: attempts + 1,
    deliverAt: new Date((event.data as unknown as DataOf<'WebhookAttemptFailed'>).next_at),
  }),
  WebhookDelivered: ended,
  WebhookGivenUp: ended,
};

const nothingYet: InvocationHistory = {
  invocation: undefined,
  deadline: undefined,
  outcome: undefined,
  attempts: 0,
  deliverAt: undefined,
  revision: noRevision,
};

const followedBy = (history: InvocationHistory, event: RecordedEvent): InvocationHistory => ({
  ...history,
  ...steps[event.type]?.(history, event),
  revision: event.revision,
});

/** As far as one event tells. */
export const historyFrom = (event: RecordedEvent): InvocationHistory => followedBy(nothingYet, event);

export async function readHistory(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
): Promise<InvocationHistory> {
  let history = nothingYet;
  for await (const event of store.readStream(stream)) history = followedBy(history, event);
  return history;
}

/** The runner's own word on an invocation. Ids are random: two runners that say the same must not be taken for one. */
export function runnerEvent(
  { metadata, tenantId }: Invocation,
  definition: { readonly type: string; readonly version: number },
  data: unknown,
  now: Date,
): NewEvent {
  return {
    id: newId(),
    type: definition.type,
    version: definition.version,
    data: data as NewEvent['data'],
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'system', id: 'reactor-runner' },
      trace_id: metadata.trace_id,
      correlation_id: metadata.correlation_id,
      occurred_at: now.toISOString(),
      ...(metadata.request === undefined ? {} : { request: metadata.request }),
    },
  };
}
