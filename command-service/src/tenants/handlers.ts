import { managementPermissions, newId, streams, type Application, type Plan } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { execute } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { createApplicationHandlers } from '../applications/handlers.ts';
import type { CommandDependencies } from '../dependencies.ts';
import { tenantDecider } from './decider.ts';

export interface CreatedTenant {
  readonly tenantId: string;
  /** With its key, which is shown only here. */
  readonly management: Application;
  readonly position: Position | undefined;
}

/** What an operator does to tenants, from the command line or at first start. */
export interface TenantCommands {
  /**
   * Makes a tenant and its management application. Given the `tenantId` of a creation that was cut short, it completes that
   * one; the application then gets a new key, since nobody has seen the first.
   */
  create(options: {
    readonly name: string;
    readonly plan: Plan;
    readonly tenantId?: string;
  }): Promise<CreatedTenant>;
}

export function createTenantCommands(dependencies: CommandDependencies): TenantCommands {
  const { store, keyRing, clock } = dependencies;
  return {
    async create({ name, plan, tenantId = newId() }) {
      // Keys first: a tenant whose event exists can always seal.
      await keyRing.createTenantKeys(tenantId);
      const context = systemContext(tenantId, 'operator', clock, {
        plan,
        idempotencyScope: ['tenant', tenantId],
      });
      const command = { kind: 'create', id: tenantId, name, plan } as const;
      const stream = streams.tenant(tenantId);
      await execute({ store, stream, decider: tenantDecider, command, event: context.event.bind(context) });
      const { application, position } = await createApplicationHandlers(store).create(
        {
          name: 'management',
          type: 'management',
          permissions: [...managementPermissions],
          rules: undefined,
          expires_at: undefined,
        },
        context,
      );
      return { tenantId, management: application, position };
    },
  };
}
