import { Gauge } from 'prom-client';
import type { Metrics } from './metrics.ts';

/** `vault_audit_unsealed_seconds`: how long the oldest event that no checkpoint covers has waited. */
export function measureUnsealed({ registry }: Metrics, read: () => number): void {
  new Gauge({
    name: 'vault_audit_unsealed_seconds',
    help: 'How long the oldest event of the log that is not sealed has waited at most; 0 when all are sealed.',
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}
