import { createBatcher } from '@token-vault/batching';
import {
  invocationPlace,
  ReactorFailed,
  ReactorSucceeded,
  type Json,
  type VaultEvent,
} from '@token-vault/contracts';
import {
  keyIdOf,
  seal,
  secret,
  useOnce,
  type KeyRing,
  type NewDataKey,
  type SealedValue,
} from '@token-vault/crypto';
import {
  EventStoreUnavailableError,
  KeysNotStoredError,
  RevisionConflictError,
  type EventStore,
} from '@token-vault/event-store';
import type { Clock } from '@token-vault/service-kit';
import { setTimeout as delay } from 'node:timers/promises';
import { runnerEvent, type Invocation } from './invocation.ts';
import type { InvocationOutcome } from './outcome.ts';

export interface RecordDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

const hourMs = 60 * 60 * 1000;
/** A synchronous result is needed for the answer, and for a repeat of the request; a delivery may take 2.5 hours. */
const resultKeptMs = { sync: hourMs, async: 4 * hourMs };
const appendAttempts = 6;

const outcomePlace = ({ tenantId, id }: Invocation) => invocationPlace(tenantId, id, 'outcome');

export interface OutcomeKey {
  readonly endsAt: Date;
  /** Never rejects before it is awaited. */
  readonly created: Promise<NewDataKey>;
}

/**
 * The key for what `recordOutcome` will seal. It is no loss when that never comes.
 * @param cvcEndsAt of the first cvc that the code is shown: what is made of a cvc ends with it (interface.md, card data shape)
 */
export function createOutcomeKey(
  { keyRing, clock }: RecordDependencies,
  invocation: Invocation,
  cvcEndsAt: Date | undefined,
): OutcomeKey {
  const { tenantId, entity, field: purpose } = outcomePlace(invocation);
  const keptUntil = new Date(clock.now().getTime() + resultKeptMs[invocation.invoked.mode]);
  const endsAt = cvcEndsAt !== undefined && cvcEndsAt < keptUntil ? cvcEndsAt : keptUntil;
  const created = keyRing.createDataKey({ tenantId, entity, purpose, destroyAfter: endsAt });
  created.catch(() => undefined);
  return { endsAt, created };
}

/** One that ends after a cvc that the code has come by since is not used. */
function fittingKey(
  dependencies: RecordDependencies,
  invocation: Invocation,
  { cvcEndsAt }: InvocationOutcome,
  early: OutcomeKey | undefined,
): OutcomeKey {
  if (early && (cvcEndsAt === undefined || early.endsAt <= cvcEndsAt)) return early;
  early?.created.then(({ key }) => key.wipe()).catch(() => undefined);
  return createOutcomeKey(dependencies, invocation, cvcEndsAt);
}

async function sealOutcome(
  { created }: OutcomeKey,
  invocation: Invocation,
  value: Json,
): Promise<SealedValue> {
  const { key, stored } = await created;
  const sealed = useOnce(key, () => seal(key, outcomePlace(invocation), secret(value)));
  await stored;
  return sealed;
}

/** Arguments are of no more use: nothing can be made of what the log holds of them. Repeatable. */
export async function destroyArguments(keyRing: KeyRing, { tenantId, invoked }: Invocation): Promise<void> {
  await keyRing.destroyKeys(tenantId, [keyIdOf(invoked.args as SealedValue)]);
}

/** Nobody waits for it: those of runs that end within this time share a flush. */
const destroyedTogether = { siblings: 1, items: 100, ms: 50 };

/** `destroyArguments`, for many runs. */
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
 * Appends how a run ended, at the revision its beginning left: of any number of runners and sweepers one says it. A store
 * that does not answer is asked again with the same event, which it stores once; should it have crashed and lost the key
 * meanwhile, the outcome is sealed anew. False when another was first.
 */
export async function recordOutcome(
  dependencies: RecordDependencies,
  invocation: Invocation,
  outcome: InvocationOutcome,
  expectedRevision: number,
  earlyKey?: OutcomeKey,
): Promise<boolean> {
  const { store, keyRing, clock } = dependencies;
  const { tenantId, stream } = invocation;
  const content = outcome.kind === 'succeeded' ? outcome.body : (outcome.problem as unknown as Json);
  const sealUnder = (key: OutcomeKey) => sealOutcome(key, invocation, content);
  const resealed = () => sealUnder(createOutcomeKey(dependencies, invocation, outcome.cvcEndsAt));
  let sealed = await sealUnder(fittingKey(dependencies, invocation, outcome, earlyKey)).catch(resealed);
  for (let attempt = 1; ; attempt += 1) {
    const event = outcomeEvent(invocation, outcome, sealed, clock.now());
    const keys = [keyIdOf(sealed)];
    try {
      await untilAnswered(() => store.append(stream, [event], expectedRevision, { keys }));
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

function outcomeEvent(
  invocation: Invocation,
  outcome: InvocationOutcome,
  sealed: SealedValue,
  now: Date,
): VaultEvent {
  const { id: invocation_id, invoked } = invocation;
  const { seenTokenIds, cvcEndsAt } = outcome;
  const identity = {
    invocation_id,
    reactor_id: invoked.reactor_id,
    mode: invoked.mode,
    ...(seenTokenIds === undefined ? {} : { seen_token_ids: seenTokenIds }),
    ...(cvcEndsAt === undefined ? {} : { cvc_ends_at: cvcEndsAt.toISOString() }),
  };
  if (outcome.kind === 'succeeded')
    return runnerEvent(invocation, ReactorSucceeded, { ...identity, result: sealed }, now);
  const { status, reason } = outcome;
  return runnerEvent(invocation, ReactorFailed, { ...identity, status, reason, problem: sealed }, now);
}

/** An append repeated with the same event ids is done once (port.ts); one whose keys are lost never is. */
export async function untilAnswered<Result>(append: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await append();
    } catch (error) {
      const isPassing = error instanceof EventStoreUnavailableError && !(error instanceof KeysNotStoredError);
      if (!isPassing || attempt === appendAttempts) throw error;
      await delay(100 * 2 ** attempt);
    }
  }
}
