import {
  ConflictError,
  NotFoundError,
  ReactorFailed,
  ReactorInvocationSigned,
  ReactorInvoked,
  WebhookRedeliveryRequested,
  type NewDataOf,
} from '@token-vault/contracts';
import { keyIdOf, type SealedValue } from '@token-vault/crypto';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, type InvocationState, type OutcomeEvent } from './state.ts';

export type NewInvocation = Omit<NewDataOf<'ReactorInvoked'>, 'args' | 'callback_url' | 'parents'> & {
  readonly args: SealedValue;
  readonly callback_url?: SealedValue;
  readonly parents?: SealedValue;
};

/** The commands of the command side. The runner appends the start, the outcome and the deliveries (ADR 15 and 48). */
export type InvocationCommand =
  | { readonly kind: 'invoke'; readonly invoked: NewInvocation }
  /** Ends an invocation that no runner has started, so that it never runs. */
  | { readonly kind: 'withdraw'; readonly problem: SealedValue }
  | { readonly kind: 'redeliver' }
  /** Signs an invocation of a release that did not sign invocations: see `upgrade/`. */
  | { readonly kind: 'sign' };

/**
 * The outcome that can be delivered again.
 * @throws NotFoundError; ConflictError when there is none
 */
export function requireDeliverable(state: InvocationState): OutcomeEvent {
  if (state.kind === 'absent') throw new NotFoundError('Invocation');
  if (state.invoked.mode === 'sync')
    throw new ConflictError('conflict', 'The invocation was not asynchronous.');
  if (state.kind !== 'over') throw new ConflictError('conflict', 'The run is not over.');
  if (state.isDelivered)
    throw new ConflictError('conflict', 'The result was delivered. Its result is no longer kept.');
  return state.outcome;
}

const isToSign = (state: InvocationState): state is Extract<InvocationState, { kind: 'waiting' | 'over' }> =>
  (state.kind === 'waiting' || state.kind === 'over') && state.signature === undefined;

function decide(state: InvocationState, command: InvocationCommand): readonly Fact[] {
  switch (command.kind) {
    case 'invoke':
      if (state.kind !== 'absent') throw new ConflictError('conflict', 'The invocation exists.');
      return [fact(ReactorInvoked, command.invoked)];
    case 'withdraw': {
      if (state.kind !== 'waiting') return [];
      const { invocation_id, reactor_id, mode } = state.invoked;
      const { problem } = command;
      const failed = { status: 503, reason: 'not-started', problem, sealed_with_tokens: true } as const;
      return [fact(ReactorFailed, { invocation_id, reactor_id, mode, ...failed })];
    }
    case 'redeliver': {
      const { invocation_id, reactor_id } = requireDeliverable(state).data;
      return [fact(WebhookRedeliveryRequested, { invocation_id, reactor_id })];
    }
    case 'sign': {
      // A running invocation waits for its end: its runner appends the outcome at a revision that it knows.
      if (!isToSign(state)) return [];
      const { invocation_id, reactor_id } = state.invoked;
      return [fact(ReactorInvocationSigned, { invocation_id, reactor_id })];
    }
  }
}

export const invocationDecider: Decider<InvocationState, InvocationCommand> = {
  initialState,
  evolve,
  decide,
};

/** The ids of the data keys that were made for the command. */
export function newKeyIds(command: InvocationCommand): string[] {
  if (command.kind === 'withdraw') return [keyIdOf(command.problem)];
  if (command.kind !== 'invoke') return [];
  const { args, callback_url, parents } = command.invoked;
  return [args, callback_url, parents].filter((sealed) => sealed !== undefined).map(keyIdOf);
}
