import type { Handlers } from '@token-vault/operations';
import type { ConsoleHandlers } from './handlers.ts';

export function consoleRoutes(sessions: ConsoleHandlers) {
  return {
    async openConsoleSession(_input, context) {
      const { session, secret, position, revoked } = await sessions.open(context);
      return { body: session, position, revoked, cookie: { set: secret } };
    },
    getConsoleSession: async (_input, context) => ({ body: await sessions.show(context) }),
    async endConsoleSession(_input, context) {
      return { position: await sessions.end(context), cookie: 'cleared' };
    },
  } satisfies Handlers;
}
