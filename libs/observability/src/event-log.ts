import { RevisionConflictError, type EventStore } from '@token-vault/event-store';
import { Counter, Histogram } from 'prom-client';
import type { Metrics } from './metrics.ts';

const buckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];

/** `vault_append_batch_appends`: the number of appends that share a flush of the disk. */
export function observeFlushes({ registry }: Metrics): (appends: number) => void {
  const sizes = new Histogram({
    name: 'vault_append_batch_appends',
    help: 'Appends that were gathered into one flush.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 500],
    registers: [registry],
  });
  return (appends) => sizes.observe(appends);
}

/** `vault_key_cache_lookups_total`: how often the keys of a tenant were in memory. */
export function observeTenantKeys({ registry }: Metrics): (outcome: 'held' | 'loaded') => void {
  const lookups = new Counter({
    name: 'vault_key_cache_lookups_total',
    help: "Look-ups of a tenant's keys, by whether they were held in memory or had to be loaded.",
    labelNames: ['outcome'],
    registers: [registry],
  });
  const bound = { held: lookups.labels('held'), loaded: lookups.labels('loaded') };
  return (outcome) => bound[outcome].inc();
}

/**
 * The same event store with its appends measured. Appended events are counted by type, so the outcomes of reactors are
 * `vault_events_appended_total{type="ReactorSucceeded"}` and `{type="ReactorFailed"}`.
 */
export function measureAppends(store: EventStore, { registry }: Metrics): EventStore {
  const durations = new Histogram({
    name: 'vault_append_duration_seconds',
    help: 'How long appends to the event log took, waiting for their turn included; by outcome.',
    labelNames: ['outcome'],
    buckets,
    registers: [registry],
  });
  // Prometheus computes a rate only from a series that existed before. Without this, the first failure would be missing.
  for (const outcome of ['stored', 'conflict', 'failed']) durations.zero({ outcome });
  const sizes = new Histogram({
    name: 'vault_append_events',
    help: 'Events of one append.',
    buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    registers: [registry],
  });
  const events = new Counter({
    name: 'vault_events_appended_total',
    help: 'Events that this process appended, by type.',
    labelNames: ['type'],
    registers: [registry],
  });
  const finish = (outcome: string, sinceMs: number) =>
    durations.observe({ outcome }, (performance.now() - sinceMs) / 1000);

  return {
    ...store,
    async append(...append) {
      const [, appended] = append;
      const sinceMs = performance.now();
      try {
        const result = await store.append(...append);
        finish('stored', sinceMs);
        sizes.observe(appended.length);
        for (const { type } of appended) events.inc({ type });
        return result;
      } catch (error) {
        finish(error instanceof RevisionConflictError ? 'conflict' : 'failed', sinceMs);
        throw error;
      }
    },
  };
}
