import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Handlers } from '@token-vault/operations';
import type { Invocations } from './handlers.ts';
import { redeliver } from './redeliver.ts';

export function invocationRoutes(invocations: Invocations) {
  return {
    react: ({ params, body }, context) => invocations.react(params.id, body, context),
  } satisfies Handlers;
}

export function redeliveryRoutes(dependencies: { readonly store: EventStore; readonly keyRing: KeyRing }) {
  return {
    redeliverInvocation: ({ params }, context) => redeliver(dependencies, params.invocation_id, context),
  } satisfies Handlers;
}
