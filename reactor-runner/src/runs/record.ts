import { createBatcher } from '@token-vault/batching';
import {
  invocationPlace,
  OutcomeUnknownError,
  ReactorFailed,
  ReactorSucceeded,
  UnavailableError,
  type OutcomeContent,
  type VaultEvent,
} from '@token-vault/contracts';
import { keyIdOf, secret, type KeyRing, type PreparedSeal, type SealedValue } from '@token-vault/crypto';
import { KeysNotStoredError, RevisionConflictError, type EventStore } from '@token-vault/event-store';
import { isUnavailable, type Clock } from '@token-vault/operations';
import { setTimeout as delay } from 'node:timers/promises';
import { runnerEvent, type Invocation } from './invocation.ts';
import type { InvocationOutcome } from './outcome.ts';
import { sealConsole } from './run-console.ts';

export interface RecordDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

const hourMs = 60 * 60 * 1000;
/** A synchronous result is needed for the answer and for a repeat of the request. A delivery may take 2.5 hours. */
const resultKeptMs = { sync: hourMs, async: 4 * hourMs };
const appendAttempts = 6;
/** How long a step is repeated while a store is unavailable. */
const stepMs = 6_000;
/**
 * The same for an outcome. The code has run, and no other process can record its result: without it the caller waits for the run's deadline, and is
 * told that the run was stopped. A restart of Postgres takes longer than 6 s at times.
 */
const outcomeMs = 60_000;
const longestPauseMs = 3_200;

const outcomePlace = ({ tenantId, id }: Invocation) => invocationPlace(tenantId, id, 'outcome_with_tokens');

export interface OutcomeKey extends PreparedSeal {
  readonly endsAt: Date;
}

/**
 * The key under which `recordOutcome` seals. When `recordOutcome` is never called, nothing is lost.
 * @param cvcEndsAt the end of the first cvc that the code is shown: a result made from a cvc ends with it
 * (interface.md, card data shape)
 */
export function createOutcomeKey(
  { keyRing, clock }: RecordDependencies,
  invocation: Invocation,
  cvcEndsAt: Date | undefined,
): OutcomeKey {
  const keptUntil = new Date(clock.now().getTime() + resultKeptMs[invocation.invoked.mode]);
  const endsAt = cvcEndsAt !== undefined && cvcEndsAt < keptUntil ? cvcEndsAt : keptUntil;
  return { endsAt, ...keyRing.prepareSeal(outcomePlace(invocation), { destroyAfter: endsAt }) };
}

/** Undefined when the key would outlive a cvc that the code was shown later. */
function fittingKey(
  dependencies: RecordDependencies,
  invocation: Invocation,
  { seen }: InvocationOutcome,
  early: OutcomeKey | undefined,
): OutcomeKey {
  const cvcEndsAt = seen?.cvcEndsAt;
  if (early && (cvcEndsAt === undefined || early.endsAt <= cvcEndsAt)) return early;
  early?.discard();
  return createOutcomeKey(dependencies, invocation, cvcEndsAt);
}

interface SealedOutcome {
  readonly result: SealedValue;
  readonly console: SealedValue | undefined;
}

/** Makes the arguments unreadable by destroying their key. They are not needed any more. Repeatable. */
export async function destroyArguments(keyRing: KeyRing, { tenantId, invoked }: Invocation): Promise<void> {
  await keyRing.destroyKeys(tenantId, [keyIdOf(invoked.args)]);
}

/** No caller waits for this: the destructions of runs that end within this time share a flush. */
const destroyedTogether = { siblings: 1, items: 100, ms: 50 };

/** `destroyArguments` for many runs. */
export function createArgumentDestruction(keyRing: KeyRing): (invocation: Invocation) => Promise<void> {
  const batcher = createBatcher<Invocation, undefined>({
    maxItems: destroyedTogether.items,
    linger: destroyedTogether,
    run: async (invocations) => {
      const ends = await Promise.allSettled(invocations.map((it) => destroyArguments(keyRing, it)));
      return ends.map((end) => (end.status === 'rejected' ? (end.reason as Error) : undefined));
    },
  });
  return (invocation) => batcher.add(invocation);
}

/**
 * Appends the outcome of a run at the revision after its start, so that only one of several runners and sweepers can
 * append it. `revision`: of the start. When the store does not answer, the same event is appended again, and is stored once. When the store
 * crashed and lost the key meanwhile, the outcome is sealed again. False when another process appended first.
 */
export async function recordOutcome(
  dependencies: RecordDependencies,
  invocation: Invocation,
  outcome: InvocationOutcome,
  { revision, earlyKey }: { readonly revision: number; readonly earlyKey?: OutcomeKey },
): Promise<boolean> {
  const { store, keyRing, clock } = dependencies;
  const { tenantId, stream } = invocation;
  const content = secret(contentOf(outcome));
  const sealUnder = async (key: OutcomeKey): Promise<SealedOutcome> => {
    const [result, console] = await Promise.all([
      key.seal(content),
      sealConsole(dependencies, invocation, outcome),
    ]);
    return { result, console };
  };
  const resealed = () => sealUnder(createOutcomeKey(dependencies, invocation, outcome.seen?.cvcEndsAt));
  let sealed = await sealUnder(fittingKey(dependencies, invocation, outcome, earlyKey)).catch(() =>
    untilAnswered(resealed, outcomeMs),
  );
  for (let attempt = 1; ; attempt += 1) {
    const event = outcomeEvent(invocation, outcome, sealed, clock.now());
    const keys = [sealed.result, sealed.console].filter((each) => each !== undefined).map(keyIdOf);
    try {
      await untilAnswered(() => store.append(stream, [event], revision, { keys }), outcomeMs);
      return true;
    } catch (error) {
      if (error instanceof RevisionConflictError) {
        await keyRing.destroyKeys(tenantId, keys);
        return false;
      }
      if (!(error instanceof KeysNotStoredError) || attempt === appendAttempts) throw error;
      sealed = await resealed();
    }
  }
}

/** The run that is lost with its runner may have been shown any token, but its problem contains none. */
function contentOf(outcome: InvocationOutcome): OutcomeContent {
  const { seen, refusals } = outcome;
  const refused = refusals?.names ?? [];
  const isSuccess = outcome.kind === 'succeeded';
  return {
    type: isSuccess ? ReactorSucceeded.type : ReactorFailed.type,
    value: isSuccess ? outcome.body : outcome.problem,
    seen: seen?.tokens ?? [],
    ...(seen === undefined ? {} : { used: seen.used }),
    isSeenComplete: seen?.isComplete ?? false,
    ...(seen?.cvcEndsAt === undefined ? {} : { cvcEndsAt: seen.cvcEndsAt.toISOString() }),
    ...(refused.length === 0 ? {} : { refused }),
  };
}

function outcomeEvent(
  invocation: Invocation,
  outcome: InvocationOutcome,
  { result, console }: SealedOutcome,
  now: Date,
): VaultEvent {
  const { id: invocation_id, invoked } = invocation;
  const cvcEndsAt = outcome.seen?.cvcEndsAt;
  const identity = {
    invocation_id,
    reactor_id: invoked.reactor_id,
    mode: invoked.mode,
    sealed_with_tokens: true as const,
    ...(console === undefined ? {} : { console }),
    ...(cvcEndsAt === undefined ? {} : { cvc_ends_at: cvcEndsAt.toISOString() }),
  };
  if (outcome.kind === 'succeeded')
    return runnerEvent(invocation, ReactorSucceeded, { ...identity, result }, now);
  const { status, reason } = outcome;
  return runnerEvent(invocation, ReactorFailed, { ...identity, status, reason, problem: result }, now);
}

/** Whether a repeat may succeed. If the first attempt succeeded, the repeat recognises it. */
export const isPassing = (error: unknown): boolean =>
  error instanceof UnavailableError ||
  error instanceof OutcomeUnknownError ||
  (isUnavailable(error) && !(error instanceof KeysNotStoredError));

/**
 * Repeats while a store is unavailable, for `ms` milliseconds about. An append with the same event ids is done once (port.ts). An append whose keys
 * are lost is never done.
 */
export async function untilAnswered<Result>(
  ask: () => Promise<Result>,
  ms: number = stepMs,
): Promise<Result> {
  const sinceMs = performance.now();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!isPassing(error) || performance.now() - sinceMs > ms) throw error;
      await delay(Math.min(100 * 2 ** attempt, longestPauseMs));
    }
  }
}
