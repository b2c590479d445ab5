import type { EventStore } from '@token-vault/event-store';
import { createAuditTrail, recordDeniedStep, type RecordedRefusals } from '@token-vault/operations';
import type { Input } from './input.ts';
import type { Invocation } from './invocation.ts';
import { guessOf, requireActingOf, useNamedOf, type DeliveryRights, type NamedRights } from './invoker.ts';
import { runOf } from './nesting.ts';
import type { GuessAs, Invoking, RunOrigin } from './ports.ts';
import { recordingStep } from './refused-steps.ts';
import type { SeenTokens } from './seen-tokens.ts';

/** Records a refusal of the run: in the name of its caller, unless the refusal names another. */
const refusalRecord =
  (
    { metadata, invoked }: Pick<Invocation, 'metadata' | 'invoked'>,
    refusals: RecordedRefusals,
    { store, clock }: { readonly store: EventStore } & Pick<DeliveryRights, 'clock'>,
  ): RunOrigin['recordRefusal'] =>
  (refusal) => {
    const code = { type: 'reactor', id: invoked.reactor_id } as const;
    return recordDeniedStep(createAuditTrail(store), { metadata, code, refusals, now: clock.now() }, refusal);
  };

/**
 * Evaluates the expressions of the arguments for the invoker and the callers of outer runs. The claim records that a caller had no right when
 * the tokens were opened. One may have lost it since: this is recorded here.
 */
export function guessOfArguments(
  invocation: Invocation,
  { context, parents }: Invoking,
  refusals: RecordedRefusals,
  rights: NamedRights & { readonly store: EventStore },
): GuessAs {
  const guess = guessOf(invocation, parents, rights, [context]);
  const record = refusalRecord(invocation, refusals, rights);
  return (isMiss, work) => recordingStep(record, () => guess(isMiss, work));
}

/** The run, for the requests of its code: the run and the runs that it is nested in decide about each request. */
export function originOf(
  invocation: Invocation,
  input: Input,
  { seen, refusals }: { readonly seen: SeenTokens; readonly refusals: RecordedRefusals },
  rights: DeliveryRights & NamedRights & { readonly store: EventStore },
): RunOrigin {
  const { tenantId, id: invocationId, metadata } = invocation;
  const parents = () => [...input.parents, runOf(invocation, seen)];
  const requireActing = () => requireActingOf(invocation, parents(), rights);
  return {
    tenantId,
    invocationId,
    traceId: metadata.trace_id,
    reason: metadata.reason,
    shownAtMost: input.shownAtMost,
    parents,
    beganAtMs: performance.now(),
    requireActing,
    requireSendable: requireActing,
    refusals,
    recordRefusal: refusalRecord(invocation, refusals, rights),
    useNamed: (named) => useNamedOf(invocation, parents(), named, rights),
    guess: (isMiss, work) => guessOf(invocation, parents(), rights)(isMiss, work),
    onTokens: (tokens, areAll) => seen.add(tokens, areAll),
  };
}
