import type { EventStore } from '@token-vault/event-store';
import { createAuditTrail, recordDeniedStep, type RecordedRefusals } from '@token-vault/operations';
import type { Input } from './input.ts';
import type { Invocation } from './invocation.ts';
import { guessOf, requireActingOf, useNamedOf, type DeliveryRights, type NamedRights } from './invoker.ts';
import { runOf } from './nesting.ts';
import type { RunOrigin } from './ports.ts';
import type { SeenTokens } from './seen-tokens.ts';

/** The run, for the requests of its code: the run and the runs that it is nested in decide about each request. */
export function originOf(
  invocation: Invocation,
  input: Input,
  { seen, refusals }: { readonly seen: SeenTokens; readonly refusals: RecordedRefusals },
  rights: DeliveryRights & NamedRights & { readonly store: EventStore },
): RunOrigin {
  const { tenantId, id: invocationId, metadata, invoked } = invocation;
  const { store, clock } = rights;
  const code = { type: 'reactor', id: invoked.reactor_id } as const;
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
    recordRefusal: (refusal) =>
      recordDeniedStep(createAuditTrail(store), { metadata, code, refusals, now: clock.now() }, refusal),
    useNamed: (named) => useNamedOf(invocation, parents(), named, rights),
    guess: (isMiss, work) => guessOf(invocation, parents(), rights)(isMiss, work),
    onTokens: (tokens, areAll) => seen.add(tokens, areAll),
  };
}
