import type { Holder } from '@token-vault/batching';
import {
  authorOf,
  invocationStatement,
  newEvent,
  newId,
  signatureOf,
  streams,
  type DataOf,
  type EventMetadata,
  type EventName,
  type invocationEvents,
  type NewDataOf,
  type TypeIn,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { SandboxPool } from '../sandbox/index.ts';
import {
  evolveBy,
  noRevision,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';

/** An invocation that a feed, the backlog or the sweeper gives to a runner. */
export interface Invocation {
  readonly tenantId: string;
  readonly id: string;
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
  /** Undefined in a log of a release that did not sign invocations. */
  readonly signature: string | undefined;
  /** The revision of the event that invoked it or, after an upgrade, signed it. A claim is the next event. */
  readonly revision: number;
  /** The name of its stream. */
  readonly stream: string;
  /** The position of the event in the log. */
  readonly position: Position;
}

function invocationOf(event: RecordedEvent<'ReactorInvoked'>): Invocation {
  const { data: invoked, metadata, revision, position } = event;
  const { tenant_id: tenantId } = metadata;
  const { invocation_id: id } = invoked;
  // The name is computed, not taken from the event: a copy of the event in another stream would be run a second time.
  const stream = streams.invocation(tenantId, id);
  return { tenantId, id, invoked, metadata, signature: signatureOf(event), revision, stream, position };
}

/**
 * Whether the signature covers the reactor, the arguments, the invoker and the destination of the result (ADR 20).
 */
export async function isGenuine(
  keyRing: Pick<KeyRing, 'hashes'>,
  { tenantId, invoked, metadata, signature }: Invocation,
): Promise<boolean> {
  const hashes = await keyRing.hashes(tenantId);
  return hashes.isBelieved(invocationStatement(invoked, metadata), signature);
}

/** The owner of a run. Applications of a tenant take turns. Sessions take those of their application. */
export const holderOf = ({ tenantId, metadata }: Pick<Invocation, 'tenantId' | 'metadata'>): Holder => ({
  tenantId,
  applicationId: authorOf(metadata),
});

/**
 * The sandbox for one run. It gets the caller and the id of the run, and the id of the run whose code waits for it. No code waits for an
 * asynchronous run.
 */
export function sandboxFor(
  invocation: Invocation,
  sandbox: Pick<SandboxPool, 'run'>,
): Pick<SandboxPool, 'run'> {
  const { id: runId, invoked, metadata } = invocation;
  const { depth, mode } = invoked;
  const { causation_id: id } = metadata;
  const waiter = mode === 'sync' && depth > 0 && id !== undefined ? { id, depth } : undefined;
  return {
    run: (request) => sandbox.run({ ...request, caller: holderOf(invocation).applicationId, runId, waiter }),
  };
}

/** The state of an invocation after all its events. */
export interface InvocationHistory {
  readonly invocation: Invocation | undefined;
  readonly deadline: Date | undefined;
  readonly outcome: OutcomeEvent | undefined;
  readonly attempts: number;
  /** The attempts that were made when the result was last asked for again. The times of retries are counted from there. */
  readonly attemptsBefore: number;
  /** The time of the next delivery. Undefined before the outcome and after the last attempt. */
  readonly deliverAt: Date | undefined;
  readonly revision: number;
}

export type OutcomeEvent = RecordedEvent<'ReactorSucceeded' | 'ReactorFailed'>;

const over = (history: InvocationHistory, outcome: OutcomeEvent): InvocationHistory => {
  const isAsync = outcome.data.mode === 'async';
  return { ...history, outcome, deliverAt: isAsync ? new Date(outcome.metadata.occurred_at) : undefined };
};

const attempted = (history: InvocationHistory): InvocationHistory => ({
  ...history,
  attempts: history.attempts + 1,
  deliverAt: undefined,
});

const evolve = evolveBy<InvocationHistory, TypeIn<typeof invocationEvents>>({
  ReactorInvoked: (history, event) => ({ ...history, invocation: invocationOf(event) }),
  ReactorInvocationSigned(history, event) {
    const { invocation } = history;
    const { revision } = event;
    return {
      ...history,
      invocation: invocation && { ...invocation, signature: signatureOf(event), revision },
    };
  },
  ReactorStarted: (history, { data }) => ({ ...history, deadline: new Date(data.deadline) }),
  ReactorSucceeded: over,
  ReactorFailed: over,
  WebhookAttemptFailed: (history, { data }) => ({
    ...history,
    attempts: history.attempts + 1,
    deliverAt: new Date(data.next_at),
  }),
  WebhookDelivered: attempted,
  WebhookGivenUp: attempted,
  WebhookRedeliveryRequested: (history, { metadata }) => ({
    ...history,
    attemptsBefore: history.attempts,
    deliverAt: new Date(metadata.occurred_at),
  }),
});

const nothingYet: InvocationHistory = {
  invocation: undefined,
  deadline: undefined,
  outcome: undefined,
  attempts: 0,
  attemptsBefore: 0,
  deliverAt: undefined,
  revision: noRevision,
};

const followedBy = (history: InvocationHistory, event: RecordedEvent): InvocationHistory => ({
  ...evolve(history, event),
  revision: event.revision,
});

/** The history that consists of this event only. */
export const historyFrom = (event: RecordedEvent): InvocationHistory => followedBy(nothingYet, event);

export async function readHistory(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
): Promise<InvocationHistory> {
  let history = nothingYet;
  for await (const event of store.readStream(stream)) history = followedBy(history, event);
  return history;
}

/**
 * An event of the runner itself. Ids are random, so that equal events of two runners are not taken for one append.
 */
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
