export { measureAppends, observeFlushes, observeTenantKeys } from './event-log.ts';
export { observeAlterations } from './altered-records.ts';
export { mountMetrics } from './mount.ts';
export { createMetrics, type Metrics } from './metrics.ts';
export { observeRequests, type AnsweredRequest, type RequestObserver } from './requests.ts';
