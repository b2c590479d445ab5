import type { Handlers } from '@token-vault/service-kit';
import type { Invocations } from './react.ts';

export function invocationRoutes(invocations: Invocations) {
  return {
    react: ({ params, body }, context) => invocations.react(params.id, body, context),
  } satisfies Handlers;
}
