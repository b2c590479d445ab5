import type { Handlers } from '@token-vault/operations';
import type { ApplicationHandlers } from './handlers.ts';

export function applicationRoutes(applications: ApplicationHandlers) {
  return {
    async createApplication({ body }, context) {
      const { application, position } = await applications.create(body, context);
      return { body: application, position };
    },
    async updateApplication({ params, body }, context) {
      const { application, position, isRepeat } = await applications.update(params.id, body, context);
      return { body: application, position, isRepeat };
    },
    async regenerateApplicationKey({ params, query }, context) {
      const { overlap } = query;
      const { application, position } = await applications.regenerateKey(params.id, overlap, context);
      return { body: application, position };
    },
    async createApplicationKey({ params, body }, context) {
      const { key, position } = await applications.addKey(params.id, body, context);
      return { body: key, position };
    },
    async deleteApplicationKey({ params }, context) {
      return applications.deleteKey(params.id, params.key_id, context);
    },
    async deleteApplication({ params }, context) {
      return applications.delete(params.id, context);
    },
  } satisfies Handlers;
}
