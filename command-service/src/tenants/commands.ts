import {
  managementPermissions,
  newId,
  NotFoundError,
  streams,
  type Application,
  type CreateApplicationBody,
  type Plan,
} from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { load } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import type { Deletion } from '../aggregates/deletion.ts';
import { createApplicationHandlers } from '../applications/handlers.ts';
import type { ApplicationAnswer } from '../applications/key-handlers.ts';
import type { CommandDependencies } from '../dependencies.ts';
import { Proxies } from '../proxies/handlers.ts';
import { requireActive, tenantDecider, type TenantCommand } from './decider.ts';
import { executeTenant } from './execute.ts';
import { sealNewWebhookSecret } from './webhook-secret.ts';

export interface CreatedTenant {
  readonly tenantId: string;
  /** With its key. The key is shown only here. */
  readonly management: Application;
  readonly position: Position | undefined;
}

/** The entity that a key belongs to. */
export interface KeyOwner {
  readonly entity: 'application' | 'proxy';
  readonly id: string;
}

/** The commands of an operator on tenants, from the command line or at first start. `listTenants` lists them. */
export interface TenantCommands {
  /**
   * Creates a tenant and its management application. Given the `tenantId` of an interrupted creation, it completes
   * that one. The application then gets a new key, because the first one was never shown.
   */
  create(options: {
    readonly name: string;
    readonly plan: Plan;
    readonly tenantId?: string;
  }): Promise<CreatedTenant>;
  /** Undefined when the tenant has that plan already. @throws NotFoundError */
  setPlan(tenantId: string, plan: Plan): Promise<Position | undefined>;
  /** The answer holds the key of the application. @throws NotFoundError, ValidationError */
  createApplication(tenantId: string, body: CreateApplicationBody): Promise<ApplicationAnswer>;
  /** The deletion is not confirmed yet: processes may still remember the caller. @throws NotFoundError */
  deleteKey(tenantId: string, owner: KeyOwner, keyId: string): Promise<Deletion>;
  /** The context of work that the operator does in the tenant. The log names the operator as the actor. @throws NotFoundError */
  contextOf(tenantId: string): Promise<RequestContext>;
}

const actor = 'operator';

const management: CreateApplicationBody = {
  name: 'management',
  type: 'management',
  permissions: [...managementPermissions],
  rules: undefined,
  expires_at: undefined,
};

export function createTenantCommands(dependencies: Omit<CommandDependencies, 'expressions'>): TenantCommands {
  const { store, keyRing, clock } = dependencies;
  const applications = createApplicationHandlers(dependencies);
  const proxies = new Proxies(dependencies);

  const stateOf = async (tenantId: string) =>
    (await load(store, streams.tenant(tenantId), tenantDecider)).state;

  async function run(
    tenantId: string,
    command: TenantCommand | (() => Promise<TenantCommand>),
  ): Promise<Position | undefined> {
    const context = systemContext(tenantId, actor, clock);
    const event = context.event.bind(context);
    return (await executeTenant({ store, keyRing, tenantId, command, event })).position;
  }

  function createManagement(tenantId: string, plan: Plan): Promise<ApplicationAnswer> {
    // The scope makes the application's id depend on the tenant's id, so that a repeat finds the same application.
    const scope = { plan, idempotencyScope: ['management application', tenantId] };
    return applications.create(management, systemContext(tenantId, actor, clock, scope));
  }

  async function contextOf(tenantId: string): Promise<RequestContext> {
    const state = await stateOf(tenantId);
    if (state.kind !== 'active') throw new NotFoundError('The tenant');
    const { plan } = requireActive(state);
    return systemContext(tenantId, actor, clock, { plan });
  }

  return {
    async create({ name, plan, tenantId = newId() }) {
      // The keys are made before the event, so that a tenant in the log can always seal.
      await keyRing.createTenantKeys(tenantId);
      if ((await stateOf(tenantId)).kind === 'absent')
        await run(tenantId, async () => {
          const { sealed: webhookSecret } = await sealNewWebhookSecret(keyRing, tenantId);
          return { kind: 'create', id: tenantId, name, plan, webhookSecret };
        });
      const { application, position } = await createManagement(tenantId, plan);
      return { tenantId, management: application, position };
    },

    setPlan: (tenantId, plan) => run(tenantId, { kind: 'set-plan', plan }),

    createApplication: async (tenantId, body) => applications.create(body, await contextOf(tenantId)),

    async deleteKey(tenantId, { entity, id }, keyId) {
      const context = await contextOf(tenantId);
      return (entity === 'application' ? applications : proxies).deleteKey(id, keyId, context);
    },

    contextOf,
  };
}
