import { isDeepStrictEqual } from 'node:util';
import {
  AlteredRecordError,
  allowedCustomHeaders,
  customContent,
  invocationEntity,
  invocationPlace,
  outcomeContentOf,
  reactorProblemCode,
  sealedOutcome,
  streams,
  WebhookAttemptFailed,
  WebhookDelivered,
  WebhookGivenUp,
  type JsonInput,
  type ProblemDetails,
  type OutcomeContent,
  type ReactorProblem,
} from '@token-vault/contracts';
import { KeyDestroyedError, SealBrokenError, type KeyRing } from '@token-vault/crypto';
import { RevisionConflictError, type EventStore } from '@token-vault/event-store';
import { problemDetails } from '@token-vault/http';
import { againAtMost } from '@token-vault/operations';
import { EgressError, type EgressFetch } from '@token-vault/egress';
import {
  isGenuine,
  readHistory,
  runnerEvent,
  type Invocation,
  type InvocationHistory,
  type OutcomeEvent,
} from '../runs/invocation.ts';
import {
  decideDelivery,
  type DeliveryAttempt,
  type RefusedDelivery,
  type ShowingRights,
} from '../runs/invoker.ts';
import { forbidden } from '../runs/outcome.ts';
import { retryAfter } from './schedule.ts';
import { readTenantWebhooks, sendWebhook } from './send.ts';

export interface DeliveryDependencies extends ShowingRights {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly fetch: EgressFetch;
}

type Content = ReturnType<typeof customContent>;

const json = (body: JsonInput | ProblemDetails) => ({
  text: JSON.stringify(body),
  contentType: 'application/json',
});

function problemContent(
  { metadata, invoked }: Invocation,
  { status, reason }: { readonly status: number; readonly reason: string },
  { detail, errors }: ReactorProblem,
) {
  const problem = { status, code: reactorProblemCode(status, reason), detail, errors };
  const instance = `/reactors/${invoked.reactor_id}/react`;
  return json(problemDetails(problem, instance, metadata.trace_id));
}

/** The body that a synchronous caller would get, or that of the error (rules.md §10). */
function contentOf(invocation: Invocation, outcome: OutcomeEvent, opened: JsonInput) {
  if (outcome.type === 'ReactorSucceeded') return json(opened);
  const problem = opened as ReactorProblem;
  const { custom } = problem;
  if (custom) return customContent(allowedCustomHeaders(custom.headers), custom.body ?? null);
  return problemContent(invocation, outcome.data, problem);
}

function refusalContent(invocation: Invocation, { refusal }: RefusedDelivery) {
  const { status, code: reason } = refusal;
  return problemContent(invocation, { status, reason }, forbidden(refusal));
}

/** The result of an attempt. Delivered when there is no `reason`. `isFinal`: a further attempt would fail too. */
interface Attempted {
  readonly reason: string | undefined;
  readonly isFinal: boolean;
  /** Set when a refusal was sent in place of the result. */
  readonly refused?: RefusedDelivery | undefined;
}

/** The result may not be delivered now. The refusal is sent in its place. */
class DeliveryRefusedError extends Error {
  readonly refused: RefusedDelivery;
  constructor(refused: RefusedDelivery) {
    super('the result may not be delivered');
    this.refused = refused;
  }
}

/** Tokens of the output are shown in another way than they were a moment before. */
class OutputsChangedError extends Error {
  /** Their numbers in the output. */
  readonly changed: readonly number[];
  constructor(changed: readonly number[]) {
    super('tokens of the output have changed');
    this.changed = changed;
  }
}

/**
 * Makes a result, and makes it again at once while others change tokens of its output, so that nobody holds up a delivery. A token that changes a
 * fifth time is withheld, as an answer shows it without data then (ADR 16). When others change meanwhile, all of them are.
 */
async function whileOutputsChange<Result>(
  make: (isWithheld: DeliveryAttempt['isWithheld']) => Promise<Result>,
): Promise<Result> {
  const changed = new Set<number>();
  for (let again = 0; ; again += 1) {
    const isWithheld = (index: number) =>
      again > againAtMost && (again > againAtMost + 1 || changed.has(index));
    try {
      return await make(isWithheld);
    } catch (error) {
      if (!(error instanceof OutputsChangedError)) throw error;
      error.changed.forEach((index) => changed.add(index));
    }
  }
}

const refusedReason = 'refused';
const altered: Attempted = { reason: 'record altered', isFinal: true };

/** Delivers results of asynchronous invocations (rules.md §10). */
export class Deliveries {
  readonly #dependencies: DeliveryDependencies;

  constructor(dependencies: DeliveryDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Makes the attempt that is due, if one is, and appends its result. Delivery is at least once: a crash in between
   * repeats the attempt with the same `webhook-id`.
   * @param signal ends the attempt, also one that is made anew because the output has changed
   */
  async deliver(tenantId: string, invocationId: string, signal: AbortSignal): Promise<void> {
    const { store, keyRing, clock } = this.#dependencies;
    const stream = streams.invocation(tenantId, invocationId);
    const history = await readHistory(store, stream);
    const { invocation, outcome, deliverAt, revision, attempts } = history;
    if (!invocation || !outcome || !deliverAt || deliverAt > clock.now()) return;
    // The record names the invoker and the destination of the result, so its signature is checked.
    const isBelieved = await isGenuine(keyRing, invocation);
    const attempted = isBelieved
      ? await this.#attempt(invocation, outcome, { isAgain: attempts > 0, signal })
      : altered;
    const event = eventOf(invocation, history, attempted, clock.now());
    const { refused } = attempted;
    try {
      await store.append(stream, [...(refused ? [refused.record] : []), event], revision);
    } catch (error) {
      if (error instanceof RevisionConflictError) return;
      throw error;
    }
    // The result is not needed any more. After a crash its key ends by its own time. That of a result that could not be
    // delivered ends then too: meanwhile a caller may want it delivered again.
    if (event.type === WebhookDelivered.type || attempted.isFinal)
      await keyRing.destroyKeysOfEntity(tenantId, invocationEntity(invocationId));
  }

  async #attempt(
    invocation: Invocation,
    outcome: OutcomeEvent,
    { isAgain, signal }: { readonly isAgain: boolean; readonly signal: AbortSignal },
  ): Promise<Attempted> {
    let refused: RefusedDelivery | undefined;
    const requireAllowed = async (isWithheld: DeliveryAttempt['isWithheld']) => {
      const open = () => this.#open(invocation, outcome);
      const decided = await decideDelivery(invocation, this.#dependencies, open, { isAgain, isWithheld });
      if (decided.refused) throw new DeliveryRefusedError(decided.refused);
      return decided.result;
    };
    const send = async (isWithheld: DeliveryAttempt['isWithheld']) => {
      const result = await requireAllowed(isWithheld);
      await result.record();
      const content = contentOf(invocation, outcome, await result.value());
      // A server may hold up the connection for seconds, so the rights are decided again when it is there.
      return this.#send(invocation, content, signal, async () => {
        const { shown } = await requireAllowed(isWithheld);
        const changed = [...shown.keys()].filter(
          (each) => !isDeepStrictEqual(shown[each], result.shown[each]),
        );
        if (changed.length > 0) throw new OutputsChangedError(changed);
      });
    };
    try {
      const reason = await whileOutputsChange(send).catch((error: unknown) => {
        if (!(error instanceof DeliveryRefusedError)) throw error;
        ({ refused } = error);
        // Code chose this URL, which may hold data that it was given.
        if (invocation.invoked.depth > 0) return refusedReason;
        return this.#send(invocation, refusalContent(invocation, error.refused), signal);
      });
      return { reason, isFinal: reason === refusedReason, refused };
    } catch (error) {
      if (error instanceof EgressError) return { reason: error.code, isFinal: false, refused };
      if (error instanceof KeyDestroyedError) return { reason: 'no longer kept', isFinal: true, refused };
      if (error instanceof SealBrokenError || error instanceof AlteredRecordError) return altered;
      throw error;
    }
  }

  async #open(invocation: Invocation, outcome: OutcomeEvent): Promise<OutcomeContent> {
    const { sealed, field } = sealedOutcome(outcome);
    const place = invocationPlace(invocation.tenantId, invocation.id, field);
    const opened = await this.#dependencies.keyRing.open(place, sealed);
    return outcomeContentOf(outcome, opened.expose());
  }

  /** Undefined when the receiver accepted the delivery. */
  async #send(
    invocation: Invocation,
    { text: body, contentType }: Content,
    signal: AbortSignal,
    permit?: () => Promise<void>,
  ): Promise<string | undefined> {
    const { tenantId, id, invoked, metadata } = invocation;
    const url = await this.#dependencies.keyRing.open<string>(
      invocationPlace(tenantId, id, 'callback_url'),
      // The text '' is no sealed value: an asynchronous invocation without a URL is an altered record.
      invoked.callback_url ?? '',
    );
    const secrets = async () => {
      await permit?.();
      return (await readTenantWebhooks(this.#dependencies, tenantId)).secrets;
    };
    const message = { id, traceId: metadata.trace_id, url: url.expose(), body, contentType };
    return sendWebhook(this.#dependencies, { ...message, tenantId, signal, secrets });
  }
}

function eventOf(
  invocation: Invocation,
  { attempts, attemptsBefore }: Pick<InvocationHistory, 'attempts' | 'attemptsBefore'>,
  { reason, isFinal }: Attempted,
  now: Date,
) {
  const { id: invocation_id, invoked } = invocation;
  const identity = { invocation_id, reactor_id: invoked.reactor_id, attempt: attempts + 1 };
  if (reason === undefined) return runnerEvent(invocation, WebhookDelivered, identity, now);
  const next = isFinal ? undefined : retryAfter(attempts + 1 - attemptsBefore, now);
  if (next === undefined) return runnerEvent(invocation, WebhookGivenUp, { ...identity, reason }, now);
  return runnerEvent(
    invocation,
    WebhookAttemptFailed,
    { ...identity, reason, next_at: next.toISOString() },
    now,
  );
}
