import { EntitiesRead, NotFoundError, tenantStatement, type UsageReport } from '@token-vault/contracts';
import { isErased, type KeyRing, type SealedValue, type Secret } from '@token-vault/crypto';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { Pool } from 'pg';
import type { FairReads, Reader } from '../fair-reads.ts';
import { requireSigned } from '../signed-rows.ts';
import { countActiveTokens, countTokensByType, findTenant, findWebhookSecret } from './queries.ts';

export interface TenantDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly keyRing: Pick<KeyRing, 'hashes' | 'open'>;
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
      const { plan, settings, accepts_unsigned: acceptsUnsigned, signature } = row;
      const statement = tenantStatement({ plan, settings, acceptsUnsigned });
      await requireSigned(keyRing, row.id, [{ statement, signature }]);
      await record(context, row.id);
      return {
        body: {
          id: row.id,
          name: row.name,
          plan,
          settings,
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
      const secret = await openWebhookSecret(keyRing, tenantId, sealed);
      await record(context, tenantId);
      return { body: { secret: secret.expose() } };
    },

    async getUsageReport({ query }, context) {
      const tenantId = context.principal.tenant.id;
      const report = await usageOf(reads.of(context), tenantId, context.now, query.months);
      await record(context, tenantId);
      return { body: { token_report: report } };
    },
  };
}

/** @throws NotFoundError when the tenant was deleted meanwhile */
async function openWebhookSecret(
  keyRing: TenantDependencies['keyRing'],
  tenantId: string,
  sealed: SealedValue,
): Promise<Secret<string>> {
  const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };
  try {
    return await keyRing.open<string>(place, sealed);
  } catch (error) {
    if (isErased(error)) throw new NotFoundError('The webhook secret');
    throw error;
  }
}

async function usageOf(
  reader: Reader,
  tenantId: string,
  now: Date,
  shownMonths: number | undefined,
): Promise<UsageReport['token_report']> {
  const starts = startsOfMonths(now, shownMonths ?? 1);
  const [types, active] = await Promise.all([
    countTokensByType(reader, tenantId, now),
    countActiveTokens(reader, tenantId, starts[0] ?? now),
  ]);
  const activeIn = new Map(active.map(({ month, count }) => [month, count]));
  const months = starts.map((start) => {
    const month = start.toISOString().slice(0, 'yyyy-mm'.length);
    return { month, monthly_active_tokens: activeIn.get(month) ?? 0 };
  });
  const metrics = types.map(({ type, count, last_created_at: last }) => {
    return [type, { count, last_created_at: last?.toISOString() }] as const;
  });
  return {
    monthly_active_tokens: months.at(-1)?.monthly_active_tokens ?? 0,
    total_tokens: types.reduce((sum, { count }) => sum + count, 0),
    ...(shownMonths === undefined ? {} : { months }),
    metrics_by_type: Object.fromEntries(metrics),
  };
}

/** The last `count` months of UTC, oldest first. */
const startsOfMonths = (now: Date, count: number): Date[] =>
  Array.from(
    { length: count },
    (_, index) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - count + 1 + index)),
  );
