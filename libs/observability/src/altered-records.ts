import type { AlterationObserver } from '@token-vault/crypto';
import { Counter, type Registry } from 'prom-client';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

function counterIn(registry: Registry): Counter<'kind'> {
  const made = registry.getSingleMetric('vault_altered_records_total');
  if (made instanceof Counter) return made;
  return new Counter({
    name: 'vault_altered_records_total',
    help: 'Stored records that were refused because they are not as the vault wrote them.',
    labelNames: ['kind'],
    registers: [registry],
  });
}

/**
 * `vault_altered_records_total`: stored records that were refused because they are not as the vault wrote them. Any such record is a reason to
 * check who can write to the database. The log line names the tenant; `audit verify` names the rows.
 */
export function observeAlterations({ registry }: Metrics, logger: Logger): AlterationObserver {
  const altered = counterIn(registry);
  return (kind, tenantId) => {
    altered.inc({ kind });
    logger.error({ tenant_id: tenantId, component: kind }, 'a stored record was altered and is refused');
  };
}

/** The same counter, with the kind `checkpoint`: the log of a tenant that is not sealed, in each attempt. The sealer logs the tenant. */
export function observeRefusedSeals({ registry }: Metrics): () => void {
  const altered = counterIn(registry);
  return () => altered.inc({ kind: 'checkpoint' });
}

/** The same counter, with the kind `schema`: in each comparison that finds the schema of the database changed. Nothing is refused. */
export function observeSchemaDifferences({ registry }: Pick<Metrics, 'registry'>): () => void {
  const altered = counterIn(registry);
  return () => altered.inc({ kind: 'schema' });
}
