import type { Handlers } from '@token-vault/operations';
import type { Reactors } from './handlers.ts';

export function reactorRoutes(reactors: Reactors) {
  return {
    async createReactor({ body }, context) {
      const { reactor, position } = await reactors.create(body, context);
      return { body: reactor, position, endsWith: reactors.ownerOf(reactor.id, context) };
    },
    async updateReactor({ params, body }, context) {
      const { reactor, position, isRepeat } = await reactors.update(params.id, body, context);
      return { body: reactor, position, isRepeat, endsWith: reactors.ownerOf(reactor.id, context) };
    },
    async patchReactor({ params, body }, context) {
      const { position, isRepeat } = await reactors.patch(params.id, body, context);
      return { position, isRepeat };
    },
    async deleteReactor({ params }, context) {
      return { position: await reactors.delete(params.id, context) };
    },
  } satisfies Handlers;
}
