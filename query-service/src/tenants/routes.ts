import { EntitiesRead, NotFoundError } from '@token-vault/contracts';
import { isErased, type KeyRing } from '@token-vault/crypto';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { Pool } from 'pg';
import type { FairReads } from '../fair-reads.ts';
import { countActiveTokens, countTokensByType, findTenant, findWebhookSecret } from './queries.ts';

export interface TenantDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly keyRing: Pick<KeyRing, 'open'>;
  readonly audit: AuditTrail;
}

type TenantQueries = Pick<HandlersOf<'query'>, 'getTenant' | 'getWebhookSecret' | 'getUsageReport'>;

export function createTenantHandlers({ pool, reads, keyRing, audit }: TenantDependencies): TenantQueries {
  const record = (context: RequestContext, tenantId: string) =>
    audit.record(context, EntitiesRead, {
      entity_type: 'tenant',
      operation: 'read',
      entity_ids: [tenantId],
    });

  return {
    async getTenant(_input, context) {
      const row = await findTenant(pool, context.principal.tenant.id);
      if (!row) throw new NotFoundError('Tenant');
      await record(context, row.id);
      return {
        body: {
          id: row.id,
          name: row.name,
          plan: row.plan,
          settings: row.settings,
          created_at: row.created_at.toISOString(),
          modified_at: row.modified_at?.toISOString(),
          modified_by: row.modified_by ?? undefined,
        },
      };
    },

    /** The read is recorded before the secret is shown, as for every sealed value. */
    async getWebhookSecret(_input, context) {
      const tenantId = context.principal.tenant.id;
      const sealed = await findWebhookSecret(pool, tenantId);
      if (!sealed) throw new NotFoundError('The webhook secret');
      const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };
      try {
        const secret = await keyRing.open<string>(place, sealed);
        await record(context, tenantId);
        return { body: { secret: secret.expose() } };
      } catch (error) {
        if (isErased(error)) throw new NotFoundError('The webhook secret');
        throw error;
      }
    },

    async getUsageReport(_input, context) {
      const tenantId = context.principal.tenant.id;
      const [types, activeTokens] = await Promise.all([
        countTokensByType(reads.of(tenantId), tenantId, context.now),
        countActiveTokens(reads.of(tenantId), tenantId, startOfMonth(context.now)),
      ]);
      await record(context, tenantId);
      const metrics = types.map(({ type, count, last_created_at: last }) => {
        return [type, { count, last_created_at: last?.toISOString() }] as const;
      });
      return {
        body: {
          token_report: {
            monthly_active_tokens: activeTokens,
            total_tokens: types.reduce((sum, { count }) => sum + count, 0),
            metrics_by_type: Object.fromEntries(metrics),
          },
        },
      };
    },
  };
}

/** Months are those of UTC. */
const startOfMonth = (now: Date): Date => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth()));
