export { createLogger, errorFields, silentLogger, type Logger, type LogFields } from './logger.ts';
export { createMetrics, type Metrics } from './metrics.ts';
export { measureAppends, observeFlushes, observeTenantKeys } from './event-log.ts';
export { observeAlterations, observeRefusedSeals, observeSchemaDifferences } from './altered-records.ts';
export {
  observeProxyRequests,
  proxyOutcomes,
  type ProxyObserver,
  type ProxyOutcome,
} from './proxy-requests.ts';
export { measureUnsealed } from './unsealed-log.ts';
export { observeSweptKeys } from './swept-keys.ts';
export { noSpans, openTelemetryIds, type Span, type Spans } from './spans.ts';
export { openSpans, type TraceSettings } from './open-telemetry.ts';
export { traceAppends } from './trace-appends.ts';
