import { streams, type BodyOf, type Operations } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expectedAt, load, retryOnConflict } from '../aggregates/decider.ts';
import { requireActive, tenantDecider, type TenantCommand } from './decider.ts';
import { executeTenant } from './execute.ts';
import type { TenantDetails } from './state.ts';
import { newWebhookSecret } from './webhook-secret.ts';

/** Unset fields are left out by JSON. */
const present = ({ id, name, plan, settings, ...details }: TenantDetails) => ({
  id,
  name,
  plan,
  settings: { ...settings },
  created_at: details.createdAt,
  modified_at: details.modifiedAt,
  modified_by: details.modifiedBy,
});

/** What a tenant does to itself (rules.md §8). */
export function createTenantHandlers({ store, keyRing }: { store: EventStore; keyRing: KeyRing }) {
  async function run(context: RequestContext, command: TenantCommand): Promise<Position | undefined> {
    const tenantId = context.principal.tenant.id;
    const event = context.event.bind(context);
    return executeTenant({ store, keyRing, tenantId, command, event });
  }

  return {
    /** Given settings replace those there are; absent ones keep them. @throws NotFoundError */
    async update({ name, settings }: BodyOf<Operations['updateTenant']>, context: RequestContext) {
      const position = await run(context, { kind: 'update', name, settings });
      const { state } = await load(store, streams.tenant(context.principal.tenant.id), tenantDecider);
      return { tenant: present(requireActive(state)), position };
    },

    /**
     * Ends the tenant: once its event is durable, all its keys are destroyed, both before the answer. Should this be cut
     * short in between, housekeeping repeats the destruction. @throws NotFoundError
     */
    async delete(context: RequestContext): Promise<Position | undefined> {
      const position = await run(context, { kind: 'delete' });
      await keyRing.destroyAllOfTenant(context.principal.tenant.id);
      return position;
    },

    /** @throws NotFoundError */
    rotateWebhookSecret(context: RequestContext): Promise<{ secret: string; position: Position }> {
      const tenantId = context.principal.tenant.id;
      const stream = streams.tenant(tenantId);
      return retryOnConflict(async () => {
        const { state, revision } = await load(store, stream, tenantDecider);
        const { webhookSecret: before } = requireActive(state);
        const { plain, sealed } = await newWebhookSecret(keyRing, tenantId, before);
        const facts = tenantDecider.decide(state, { kind: 'rotate-webhook-secret', secret: sealed });
        const events = facts.map((each) => context.event(each, each.data));
        const { position } = await store.append(stream, events, expectedAt(revision));
        return { secret: plain, position };
      });
    },
  };
}
export type TenantHandlers = ReturnType<typeof createTenantHandlers>;
