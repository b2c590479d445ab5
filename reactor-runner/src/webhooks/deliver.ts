import {
  allowedCustomHeaders,
  customContent,
  invocationEntity,
  invocationPlace,
  reactorProblemCode,
  streams,
  WebhookAttemptFailed,
  WebhookDelivered,
  WebhookGivenUp,
  type InvocationField,
  type Json,
  type ReactorProblem,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue, type Secret } from '@token-vault/crypto';
import { RevisionConflictError, type EventStore } from '@token-vault/event-store';
import { problemDetails, type Clock } from '@token-vault/service-kit';
import { EgressError, type EgressFetch } from '../egress/index.ts';
import { readHistory, runnerEvent, type Invocation, type OutcomeEvent } from '../runs/invocation.ts';
import { retryAfter } from './schedule.ts';
import { signatureHeaders } from './signature.ts';

export interface DeliveryDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly fetch: EgressFetch;
}

const timeoutMs = 15_000;

const json = (body: Json) => ({ text: JSON.stringify(body), contentType: 'application/json' });

/** The body a synchronous caller would have been answered, or the error's (decisions.md §10). */
function contentOf({ metadata, invoked }: Invocation, outcome: OutcomeEvent, opened: Json) {
  if (outcome.type === 'ReactorSucceeded') return json(opened);
  const { detail, errors, custom } = opened as unknown as ReactorProblem;
  if (custom) return customContent(allowedCustomHeaders(custom.headers), custom.body ?? null);
  const { status } = outcome.data;
  const problem = { status, code: reactorProblemCode(status), detail, errors };
  const instance = `/reactors/${invoked.reactor_id}/react`;
  return json(problemDetails(problem, instance, metadata.trace_id) as unknown as Json);
}

/** How an attempt went: delivered without a `reason`; `isFinal` when no other attempt can go better. */
interface Attempted {
  readonly reason: string | undefined;
  readonly isFinal: boolean;
}

/** Delivers results of asynchronous invocations (decisions.md §10). */
export class Deliveries {
  readonly #dependencies: DeliveryDependencies;

  constructor(dependencies: DeliveryDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Makes the attempt that is due, if one is, and appends how it went. Delivered at least once: a crash between the two repeats
   * the attempt, under the same `webhook-id`.
   */
  async deliver(tenantId: string, invocationId: string): Promise<void> {
    const { store, keyRing, clock } = this.#dependencies;
    const stream = streams.invocation(tenantId, invocationId);
    const { invocation, outcome, attempts, deliverAt, revision } = await readHistory(store, stream);
    if (!invocation || !outcome || !deliverAt || deliverAt > clock.now()) return;
    const attempted = await this.#attempt(invocation, outcome);
    const event = eventOf(invocation, attempts + 1, attempted, clock.now());
    try {
      await store.append(stream, [event], revision);
    } catch (error) {
      if (error instanceof RevisionConflictError) return;
      throw error;
    }
    // Nobody needs the result any more; what a crash leaves goes by its own time.
    if (event.type !== WebhookAttemptFailed.type)
      await keyRing.destroyKeysOfEntity(tenantId, invocationEntity(invocationId));
  }

  async #attempt(invocation: Invocation, outcome: OutcomeEvent): Promise<Attempted> {
    try {
      return { reason: await this.#send(invocation, outcome), isFinal: false };
    } catch (error) {
      if (error instanceof EgressError) return { reason: error.code, isFinal: false };
      if (error instanceof KeyDestroyedError) return { reason: 'no longer kept', isFinal: true };
      throw error;
    }
  }

  /** Undefined when the receiver took it. */
  async #send(invocation: Invocation, outcome: OutcomeEvent): Promise<string | undefined> {
    const { keyRing, clock, fetch } = this.#dependencies;
    const { tenantId, id, invoked, metadata } = invocation;
    const sealed = outcome.type === 'ReactorSucceeded' ? outcome.data.result : outcome.data.problem;
    const place = (field: InvocationField) => invocationPlace(tenantId, id, field);
    const [url, opened, secret] = await Promise.all([
      keyRing.open<string>(place('callback_url'), invoked.callback_url as SealedValue),
      keyRing.open(place('outcome'), sealed as SealedValue),
      this.#secretOf(tenantId),
    ]);
    const { text: body, contentType } = contentOf(invocation, outcome, opened.expose());
    const { status } = await fetch({
      tenantId,
      url: url.expose(),
      method: 'POST',
      headers: [
        ['content-type', contentType],
        ['user-agent', 'token-vault-webhooks'],
        ['svc-trace-id', metadata.trace_id],
        ...signatureHeaders(secret.expose(), { id, at: clock.now(), body }),
      ],
      body: Buffer.from(body, 'utf8'),
      redirect: 'manual',
      timeoutMs,
    });
    return status >= 200 && status < 300 ? undefined : `status ${status}`;
  }

  /** The one in force now, which may not be the one at the time of the invocation. */
  async #secretOf(tenantId: string): Promise<Secret<string>> {
    const { store, keyRing } = this.#dependencies;
    let sealed: string | undefined;
    for await (const event of store.readStream(streams.tenant(tenantId))) {
      if (event.type === 'TenantWebhookSecretRotated') ({ secret: sealed } = event.data);
    }
    if (sealed === undefined) throw new Error('the tenant has no webhook secret');
    // At the place where command-service sealed it.
    const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };
    return keyRing.open<string>(place, sealed as SealedValue);
  }
}

function eventOf(invocation: Invocation, attempt: number, { reason, isFinal }: Attempted, now: Date) {
  const { id: invocation_id, invoked } = invocation;
  const identity = { invocation_id, reactor_id: invoked.reactor_id, attempt };
  if (reason === undefined) return runnerEvent(invocation, WebhookDelivered, identity, now);
  const next = isFinal ? undefined : retryAfter(attempt, now);
  if (next === undefined) return runnerEvent(invocation, WebhookGivenUp, { ...identity, reason }, now);
  return runnerEvent(
    invocation,
    WebhookAttemptFailed,
    { ...identity, reason, next_at: next.toISOString() },
    now,
  );
}
