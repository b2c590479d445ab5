export { openSpans, type TraceSettings } from './open-telemetry.ts';
export { noSpans, openTelemetryIds, type Span, type Spans } from './spans.ts';
export { traceAppends } from './trace-appends.ts';
