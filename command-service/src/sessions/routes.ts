import type { Handlers } from '@token-vault/operations';
import type { SessionHandlers } from './handlers.ts';

export function sessionRoutes(sessions: SessionHandlers) {
  return {
    async createSession(_input, context) {
      const { session, position } = await sessions.open(context);
      return { body: session, position };
    },
    async authorizeSession({ body }, context) {
      const { position, isRepeat } = await sessions.authorize(body, context);
      return { position, isRepeat };
    },
  } satisfies Handlers;
}
