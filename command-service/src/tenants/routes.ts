import type { Handlers } from '@token-vault/operations';
import type { TenantHandlers } from './handlers.ts';

export function tenantRoutes(tenants: TenantHandlers) {
  return {
    async updateTenant({ body }, context) {
      const { tenant, position, isRepeat } = await tenants.update(body, context);
      return { body: tenant, position, isRepeat };
    },
    async deleteTenant(_input, context) {
      return { position: await tenants.delete(context) };
    },
    async rotateWebhookSecret({ query }, context) {
      const { secret, position } = await tenants.rotateWebhookSecret(query.overlap ?? 0, context);
      return { body: { secret }, position };
    },
  } satisfies Handlers;
}
