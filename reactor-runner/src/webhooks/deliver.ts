import {
  invocationEntity,
  invocationPlace,
  reactorProblemCode,
  streams,
  WebhookAttemptFailed,
  WebhookDelivered,
  WebhookGivenUp,
  type DataOf,
  type Json,
  type ReactorProblem,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import { RevisionConflictError, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { problemDetails, type Clock } from '@token-vault/service-kit';
import { EgressError, type EgressFetch } from '../egress/index.ts';
import { readHistory, runnerEvent, type Invocation } from '../runs/invocation.ts';
import { retryAfter } from './schedule.ts';
import { signatureHeaders } from './signature.ts';

export interface DeliveryDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly fetch: EgressFetch;
}

const timeoutMs = 15_000;

/** What cannot be delivered, whatever the receiver does. */
class UndeliverableError extends Error {
  readonly code = 'undeliverable';
}

/** The body a synchronous caller would have been answered, or the error's (decisions.md §10). */
function bodyOf({ id: _id, metadata, invoked }: Invocation, outcome: RecordedEvent, opened: Json): Json {
  if (outcome.type === 'ReactorSucceeded') return opened;
  const { detail, errors, custom } = opened as unknown as ReactorProblem;
  if (custom) return custom.body ?? null;
  const { status } = outcome.data as unknown as DataOf<'ReactorFailed'>;
  const problem = { status, code: reactorProblemCode(status), detail, errors };
  const instance = `/reactors/${invoked.reactor_id}/react`;
  return problemDetails(problem, instance, metadata.trace_id) as unknown as Json;
}

/** Delivers results of asynchronous invocations. */
export function createDelivery({ store, keyRing, clock, fetch }: DeliveryDependencies) {
  async function secretOf(tenantId: string): Promise<string> {
    let sealed: SealedValue | undefined;
    for await (const event of store.readStream(streams.tenant(tenantId))) {
      if (event.type === 'TenantWebhookSecretRotated') {
        sealed = (event.data as unknown as DataOf<'TenantWebhookSecretRotated'>).secret as SealedValue;
      }
    }
    if (sealed === undefined) throw new UndeliverableError('the tenant has no webhook secret');
    // At the place where command-service sealed it.
    const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };
    return (await keyRing.open<string>(place, sealed)).expose();
  }

  async function send(invocation: Invocation, outcome: RecordedEvent): Promise<string | undefined> {
    const { tenantId, id, invoked, metadata } = invocation;
    const { result, problem } = outcome.data as { result?: SealedValue; problem?: SealedValue };
    const [url, opened, secret] = await Promise.all([
      keyRing.open<string>(
        invocationPlace(tenantId, id, 'callback_url'),
        invoked.callback_url as SealedValue,
      ),
      keyRing.open(invocationPlace(tenantId, id, 'outcome'), (result ?? problem) as SealedValue),
      secretOf(tenantId),
    ]);
    const body = JSON.stringify(bodyOf(invocation, outcome, opened.expose()));
    try {
      const { status } = await fetch({
        url: url.expose(),
        method: 'POST',
        headers: [
          ['content-type', 'application/json'],
          ['user-agent', 'token-vault-webhooks'],
          ['svc-trace-id', metadata.trace_id],
          ...signatureHeaders(secret, { id, at: clock.now(), body }),
        ],
        body: Buffer.from(body, 'utf8'),
        redirect: 'manual',
        timeoutMs,
      });
      return status >= 200 && status < 300 ? undefined : `status ${status}`;
    } catch (error) {
      if (error instanceof EgressError) return error.code;
      throw error;
    }
  }

  /** Undefined when it was delivered, else why not; `isFinal` when no further attempt can change that. */
  async function attempt(invocation: Invocation, outcome: RecordedEvent) {
    try {
      return { reason: await send(invocation, outcome), isFinal: false };
    } catch (error) {
      if (error instanceof KeyDestroyedError) return { reason: 'result no longer kept', isFinal: true };
      if (error instanceof UndeliverableError) return { reason: error.message, isFinal: true };
      throw error;
    }
  }

  /**
   * Makes the attempt that is due, if one is, and appends how it went. Delivered at least once: a crash between the two repeats
   * the attempt, under the same `webhook-id`.
   */
  return async (tenantId: string, invocationId: string): Promise<void> => {
    const stream = streams.invocation(tenantId, invocationId);
    const { invocation, outcome, attempts, deliverAt, revision } = await readHistory(store, stream);
    if (!invocation || !outcome || !deliverAt || deliverAt > clock.now()) return;
    const { reason, isFinal } = await attempt(invocation, outcome);
    const count = attempts + 1;
    const identity = {
      invocation_id: invocationId,
      reactor_id: invocation.invoked.reactor_id,
      attempt: count,
    };
    const now = clock.now();
    const next = isFinal ? undefined : retryAfter(count, now);
    const event =
      reason === undefined
        ? runnerEvent(invocation, WebhookDelivered, identity, now)
        : next === undefined
          ? runnerEvent(invocation, WebhookGivenUp, { ...identity, reason }, now)
          : runnerEvent(
              invocation,
              WebhookAttemptFailed,
              { ...identity, reason, next_at: next.toISOString() },
              now,
            );
    try {
      await store.append(stream, [event], revision);
    } catch (error) {
      if (error instanceof RevisionConflictError) return;
      throw error;
    }
    // Nobody needs the result any more; what a crash leaves goes by its own time.
    if (event.type !== 'WebhookAttemptFailed')
      await keyRing.destroyKeysOfEntity(tenantId, invocationEntity(invocationId));
  };
}
export type Delivery = ReturnType<typeof createDelivery>;
