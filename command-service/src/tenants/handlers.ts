import { streams, type BodyOf, type Operations } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { attemptsOf } from '../aggregates/attempts.ts';
import { load } from '../aggregates/decider.ts';
import { requireActive, tenantDecider, type TenantCommand } from './decider.ts';
import { executeTenant } from './execute.ts';
import type { TenantDetails } from './state.ts';
import { sealNewWebhookSecret } from './webhook-secret.ts';

/** JSON leaves out unset fields. */
const present = ({ id, name, plan, settings, ...details }: TenantDetails) => ({
  id,
  name,
  plan,
  settings: { ...settings },
  created_at: details.createdAt,
  modified_at: details.modifiedAt,
  modified_by: details.modifiedBy,
});

/** The operations of a tenant on itself (rules.md §8). */
export function createTenantHandlers({ store, keyRing }: { store: EventStore; keyRing: KeyRing }) {
  async function run(context: RequestContext, command: TenantCommand) {
    const tenantId = context.principal.tenant.id;
    const event = context.event.bind(context);
    return executeTenant({ store, keyRing, tenantId, command, event, attempts: attemptsOf(context) });
  }

  return {
    /** The given settings replace the stored ones, absent ones keep them. @throws NotFoundError */
    async update({ name, settings }: BodyOf<Operations['updateTenant']>, context: RequestContext) {
      const { position, isRepeat } = await run(context, { kind: 'update', name, settings });
      const { state } = await load(store, streams.tenant(context.principal.tenant.id), tenantDecider);
      return { tenant: present(requireActive(state)), position, isRepeat };
    },

    /**
     * Ends the tenant. Once the event is durable, all keys of the tenant are destroyed, and the answer comes last.
     * When a crash interrupts this, housekeeping repeats the destruction. @throws NotFoundError
     */
    async delete(context: RequestContext): Promise<Position | undefined> {
      const { position } = await run(context, { kind: 'delete' });
      await keyRing.destroyAllOfTenant(context.principal.tenant.id);
      return position;
    },

    /** `overlap`: the number of seconds for which the earlier secret continues to sign. @throws NotFoundError, ConflictError */
    async rotateWebhookSecret(
      overlap: number,
      context: RequestContext,
    ): Promise<{ secret: string; position: Position | undefined }> {
      const tenantId = context.principal.tenant.id;
      let secret = '';
      const { position } = await executeTenant({
        store,
        keyRing,
        tenantId,
        event: context.event.bind(context),
        async command(state) {
          const made = await sealNewWebhookSecret(keyRing, tenantId, requireActive(state).webhookSecret);
          secret = made.plain;
          const { sealed, isFirstOfKey } = made;
          return { kind: 'rotate-webhook-secret', secret: sealed, isFirstOfKey, overlap, now: context.now };
        },
      });
      return { secret, position };
    },
  };
}
export type TenantHandlers = ReturnType<typeof createTenantHandlers>;
