import type { Handlers } from '@token-vault/service-kit';
import type { ApplicationHandlers } from './handlers.ts';

export function applicationRoutes(applications: ApplicationHandlers) {
  return {
    async createApplication({ body }, context) {
      const { application, position } = await applications.create(body, context);
      return { body: application, position };
    },
    async updateApplication({ params, body }, context) {
      const { application, position } = await applications.update(params.id, body, context);
      return { body: application, position };
    },
    async regenerateApplicationKey({ params }, context) {
      const { application, position } = await applications.regenerateKey(params.id, context);
      return { body: application, position };
    },
    async deleteApplication({ params }, context) {
      return applications.delete(params.id, context);
    },
  } satisfies Handlers;
}
