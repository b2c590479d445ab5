import { managementPermissions, newId, streams, type Application, type Plan } from '@token-vault/contracts';
import { execute } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { createApplicationHandlers } from '../applications/handlers.ts';
import type { CommandDependencies } from '../dependencies.ts';
import { tenantDecider } from './decider.ts';

/** What an operator does to tenants, from the command line or at first start. */
export interface TenantCommands {
  /** Keys first: a tenant whose event exists can always seal. */
  create(options: { name: string; plan: Plan }): Promise<{ tenantId: string; management: Application }>;
}

export function createTenantCommands(dependencies: CommandDependencies): TenantCommands {
  const { store, keyRing, clock } = dependencies;
  return {
    async create({ name, plan }) {
      const tenantId = newId();
      await keyRing.createTenantKeys(tenantId);
      const context = systemContext(tenantId, 'operator', clock, plan);
      const command = { kind: 'create', id: tenantId, name, plan } as const;
      const stream = streams.tenant(tenantId);
      await execute({ store, stream, decider: tenantDecider, command, event: context.event.bind(context) });
      const { application } = await createApplicationHandlers(store).create(
        {
          name: 'management',
          type: 'management',
          permissions: [...managementPermissions],
          rules: undefined,
          expires_at: undefined,
        },
        context,
      );
      return { tenantId, management: application };
    },
  };
}
