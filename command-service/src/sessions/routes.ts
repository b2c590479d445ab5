import type { Handlers } from '@token-vault/service-kit';
import type { SessionHandlers } from './handlers.ts';

export function sessionRoutes(sessions: SessionHandlers) {
  return {
    async createSession(_input, context) {
      const { session, position } = await sessions.open(context);
      return { body: session, position };
    },
    async authorizeSession({ body }, context) {
      return { position: await sessions.authorize(body, context) };
    },
  } satisfies Handlers;
}
