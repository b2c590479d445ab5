import {
  invocationStatement,
  newEvent,
  newId,
  signatureOf,
  streams,
  type DataOf,
  type EventMetadata,
  type EventName,
  type NewDataOf,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { noRevision, type EventStore, type Position, type RecordedEvent } from '@token-vault/event-store';

/** An invocation as a runner meets it. */
export interface Invocation {
  readonly tenantId: string;
  readonly id: string;
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
  /** Undefined of a release that did not sign invocations. */
  readonly signature: string | undefined;
  /** Revision of the event that invoked it or, after an upgrade, signed it. A claim is the next event. */
  readonly revision: number;
  /** Name of its stream. */
  readonly stream: string;
  /** Where the log has it. */
  readonly position: Position;
}

export function invocationOf(event: RecordedEvent<'ReactorInvoked'>): Invocation {
  const { data: invoked, metadata, revision, position } = event;
  const { tenant_id: tenantId } = metadata;
  const { invocation_id: id } = invoked;
  // Not the stream that the event stands in: a copy of it elsewhere would be run a second time.
  const stream = streams.invocation(tenantId, id);
  return { tenantId, id, invoked, metadata, signature: signatureOf(event), revision, stream, position };
}

/** Whether what is run, with what, in whose name, and where its result goes are as the vault wrote it (ADR 20). */
export async function isGenuine(
  keyRing: Pick<KeyRing, 'hashes'>,
  { tenantId, invoked, metadata, signature }: Invocation,
): Promise<boolean> {
  const hashes = await keyRing.hashes(tenantId);
  return hashes.isBelieved(invocationStatement(invoked, metadata), signature);
}

/** Everything that has happened to it. */
export interface InvocationHistory {
  readonly invocation: Invocation | undefined;
  readonly deadline: Date | undefined;
  readonly outcome: OutcomeEvent | undefined;
  readonly attempts: number;
  /** When the next delivery is due; undefined before the outcome and after the last attempt. */
  readonly deliverAt: Date | undefined;
  readonly revision: number;
}

export type OutcomeEvent = RecordedEvent<'ReactorSucceeded' | 'ReactorFailed'>;

function next(history: InvocationHistory, event: RecordedEvent): Partial<InvocationHistory> {
  switch (event.type) {
    case 'ReactorInvoked':
      return { invocation: invocationOf(event) };
    case 'ReactorInvocationSigned': {
      const { invocation } = history;
      const { revision } = event;
      return { invocation: invocation && { ...invocation, signature: signatureOf(event), revision } };
    }
    case 'ReactorStarted':
      return { deadline: new Date(event.data.deadline) };
    case 'ReactorSucceeded':
    case 'ReactorFailed': {
      const isAsync = event.data.mode === 'async';
      return { outcome: event, deliverAt: isAsync ? new Date(event.metadata.occurred_at) : undefined };
    }
    case 'WebhookAttemptFailed':
      return { attempts: history.attempts + 1, deliverAt: new Date(event.data.next_at) };
    case 'WebhookDelivered':
    case 'WebhookGivenUp':
      return { attempts: history.attempts + 1, deliverAt: undefined };
    default:
      return {};
  }
}

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
  ...next(history, event),
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
export function runnerEvent<Type extends VaultEventType>(
  { metadata, tenantId }: Invocation,
  name: EventName<Type>,
  data: NewDataOf<Type>,
  now: Date,
): Extract<VaultEvent, { type: Type }> {
  return newEvent(name, data, {
    id: newId(),
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'system', id: 'reactor-runner' },
      trace_id: metadata.trace_id,
      correlation_id: metadata.correlation_id,
      occurred_at: now.toISOString(),
      ...(metadata.request === undefined ? {} : { request: metadata.request }),
    },
  });
}
