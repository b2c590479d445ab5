import type { AlterationObserver } from '@token-vault/crypto';
import { Counter } from 'prom-client';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

/**
 * `vault_altered_records_total`: stored records that were refused because they are not as the vault wrote them. Any such record is a reason to
 * check who can write to the database. The log line names the tenant; `audit verify` names the rows.
 */
export function observeAlterations({ registry }: Metrics, logger: Logger): AlterationObserver {
  const altered = new Counter({
    name: 'vault_altered_records_total',
    help: 'Stored records that decide about access and were refused because they are not as the vault wrote them.',
    labelNames: ['kind'],
    registers: [registry],
  });
  return (kind, tenantId) => {
    altered.inc({ kind });
    logger.error({ tenant_id: tenantId, component: kind }, 'a stored record was altered and is refused');
  };
}
