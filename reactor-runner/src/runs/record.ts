import { createBatcher } from '@token-vault/batching';
import { invocationPlace, ReactorFailed, ReactorSucceeded, type Json } from '@token-vault/contracts';
import { keyIdOf, seal, secret, type KeyRing, type NewDataKey, type SealedValue } from '@token-vault/crypto';
import { EventStoreUnavailableError, RevisionConflictError, type EventStore } from '@token-vault/event-store';
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

/** The key for what `recordOutcome` will seal. It is no loss when that never comes. Never rejects before it is awaited. */
export function createOutcomeKey(
  { keyRing, clock }: RecordDependencies,
  invocation: Invocation,
): Promise<NewDataKey> {
  const { tenantId, entity, field: purpose } = outcomePlace(invocation);
  const destroyAfter = new Date(clock.now().getTime() + resultKeptMs[invocation.invoked.mode]);
  const key = keyRing.createDataKey({ tenantId, entity, purpose, destroyAfter });
  key.catch(() => undefined);
  return key;
}

async function sealOutcome(
  newKey: Promise<NewDataKey>,
  invocation: Invocation,
  value: Json,
): Promise<SealedValue> {
  const { key, stored } = await newKey;
  const sealed = seal(key, outcomePlace(invocation), secret(value));
  key.wipe();
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
 * that does not answer is asked again with the same event, which it stores once. False when another was first.
 */
export async function recordOutcome(
  dependencies: RecordDependencies,
  invocation: Invocation,
  outcome: InvocationOutcome,
  expectedRevision: number,
  key: Promise<NewDataKey> = createOutcomeKey(dependencies, invocation),
): Promise<boolean> {
  const { store, keyRing, clock } = dependencies;
  const { id: invocation_id, invoked, tenantId, stream } = invocation;
  const identity = { invocation_id, reactor_id: invoked.reactor_id, mode: invoked.mode };
  const content = outcome.kind === 'succeeded' ? outcome.body : (outcome.problem as unknown as Json);
  const sealed = await sealOutcome(key, invocation, content).catch(() =>
    sealOutcome(createOutcomeKey(dependencies, invocation), invocation, content),
  );
  const event =
    outcome.kind === 'succeeded'
      ? runnerEvent(invocation, ReactorSucceeded, { ...identity, result: sealed }, clock.now())
      : runnerEvent(
          invocation,
          ReactorFailed,
          { ...identity, status: outcome.status, reason: outcome.reason, problem: sealed },
          clock.now(),
        );
  try {
    await untilAnswered(() => store.append(stream, [event], expectedRevision));
  } catch (error) {
    if (!(error instanceof RevisionConflictError)) throw error;
    await keyRing.destroyKeys(tenantId, [keyIdOf(sealed)]);
    return false;
  }
  return true;
}

/** An append repeated with the same event ids is done once (port.ts). */
export async function untilAnswered<Result>(append: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await append();
    } catch (error) {
      if (!(error instanceof EventStoreUnavailableError) || attempt === appendAttempts) throw error;
      await delay(100 * 2 ** attempt);
    }
  }
}
