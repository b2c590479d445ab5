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
  type Json,
  type ReactorProblem,
} from '@token-vault/contracts';
import {
  KeyDestroyedError,
  SealBrokenError,
  type KeyRing,
  type SealedValue,
  type Secret,
} from '@token-vault/crypto';
import { RevisionConflictError, type EventStore } from '@token-vault/event-store';
import { problemDetails } from '@token-vault/service-kit';
import { EgressError, type EgressFetch } from '../egress/index.ts';
import {
  isGenuine,
  readHistory,
  runnerEvent,
  type Invocation,
  type OutcomeEvent,
} from '../runs/invocation.ts';
import { refusalOfDelivery, type DeliveryRights, type RefusedDelivery } from '../runs/invoker.ts';
import { forbidden } from '../runs/outcome.ts';
import { retryAfter } from './schedule.ts';
import { signatureHeaders } from './signature.ts';

export interface DeliveryDependencies extends DeliveryRights {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly fetch: EgressFetch;
}

const timeoutMs = 15_000;

type Content = ReturnType<typeof customContent>;

const json = (body: Json) => ({ text: JSON.stringify(body), contentType: 'application/json' });

function problemContent(
  { metadata, invoked }: Invocation,
  { status, reason }: { readonly status: number; readonly reason: string },
  { detail, errors }: ReactorProblem,
) {
  const problem = { status, code: reactorProblemCode(status, reason), detail, errors };
  const instance = `/reactors/${invoked.reactor_id}/react`;
  return json(problemDetails(problem, instance, metadata.trace_id) as unknown as Json);
}

/** The body a synchronous caller would have been answered, or the error's (rules.md §10). */
function contentOf(invocation: Invocation, outcome: OutcomeEvent, opened: Json) {
  if (outcome.type === 'ReactorSucceeded') return json(opened);
  const problem = opened as unknown as ReactorProblem;
  const { custom } = problem;
  if (custom) return customContent(allowedCustomHeaders(custom.headers), custom.body ?? null);
  return problemContent(invocation, outcome.data, problem);
}

/** How an attempt went: delivered without a `reason`; `isFinal` when no other attempt can go better. */
interface Attempted {
  readonly reason: string | undefined;
  readonly isFinal: boolean;
}

const altered: Attempted = { reason: 'record altered', isFinal: true };

/** Delivers results of asynchronous invocations (rules.md §10). */
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
    // It says in whose name it was made and where the result goes.
    const isBelieved = await isGenuine(keyRing, invocation);
    const refused = isBelieved ? await refusalOfDelivery(invocation, this.#dependencies) : undefined;
    const attempted = isBelieved ? await this.#attempt(invocation, outcome, refused) : altered;
    const event = eventOf(invocation, attempts + 1, attempted, clock.now());
    try {
      await store.append(stream, [...(refused ? [refused.record] : []), event], revision);
    } catch (error) {
      if (error instanceof RevisionConflictError) return;
      throw error;
    }
    // Nobody needs the result any more; what a crash leaves goes by its own time.
    if (event.type !== WebhookAttemptFailed.type)
      await keyRing.destroyKeysOfEntity(tenantId, invocationEntity(invocationId));
  }

  async #attempt(
    invocation: Invocation,
    outcome: OutcomeEvent,
    refused: RefusedDelivery | undefined,
  ): Promise<Attempted> {
    try {
      const content = refused
        ? problemContent(
            invocation,
            { status: refused.refusal.status, reason: refused.refusal.code },
            forbidden(refused.refusal),
          )
        : await this.#contentOf(invocation, outcome);
      return { reason: await this.#send(invocation, content), isFinal: false };
    } catch (error) {
      if (error instanceof EgressError) return { reason: error.code, isFinal: false };
      if (error instanceof KeyDestroyedError) return { reason: 'no longer kept', isFinal: true };
      if (error instanceof SealBrokenError) return altered;
      throw error;
    }
  }

  async #contentOf(invocation: Invocation, outcome: OutcomeEvent): Promise<Content> {
    const { tenantId, id } = invocation;
    const sealed = outcome.type === 'ReactorSucceeded' ? outcome.data.result : outcome.data.problem;
    const place = invocationPlace(tenantId, id, 'outcome');
    const opened = await this.#dependencies.keyRing.open(place, sealed as SealedValue);
    return contentOf(invocation, outcome, opened.expose());
  }

  /** Undefined when the receiver took it. */
  async #send(invocation: Invocation, { text: body, contentType }: Content): Promise<string | undefined> {
    const { keyRing, clock, fetch } = this.#dependencies;
    const { tenantId, id, invoked, metadata } = invocation;
    const [url, secret] = await Promise.all([
      keyRing.open<string>(
        invocationPlace(tenantId, id, 'callback_url'),
        invoked.callback_url as SealedValue,
      ),
      this.#secretOf(tenantId),
    ]);
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
