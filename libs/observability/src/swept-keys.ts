import { Counter } from 'prom-client';
import type { Metrics } from './metrics.ts';

/** `vault_swept_keys_total`: data keys that were destroyed because their event never came (ADR 2). */
export function observeSweptKeys({ registry }: Metrics): (keys: number) => void {
  const swept = new Counter({
    name: 'vault_swept_keys_total',
    help: 'Data keys that were destroyed because their event never came.',
    registers: [registry],
  });
  return (keys) => swept.inc(keys);
}
