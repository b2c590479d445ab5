import type { IdGenerator } from '@opentelemetry/sdk-trace';
import { randomBytes } from 'node:crypto';
import { openTelemetryIds, type Span, type Spans } from './spans.ts';

export interface TraceSettings {
  /** The OTLP/HTTP endpoint for traces; `/v1/traces` is appended. */
  readonly endpoint: string;
  /** The share of traces that is kept, 0 to 1. The trace id decides, so all processes decide the same. */
  readonly share: number;
}

const exportTimeoutMs = 5_000;
const sendEveryMs = 1_000;

/** Gives the next span the chosen ids. OpenTelemetry asks for them at once, so no other span can take them. */
class ChosenIds implements IdGenerator {
  trace = '';
  span: string | undefined;
  generateTraceId = (): string => this.trace;
  generateSpanId = (): string => this.span ?? randomBytes(8).toString('hex');
}

/** Sends spans to a collector. This is the only place that loads OpenTelemetry. */
export async function openSpans(service: string, { endpoint, share }: TraceSettings): Promise<Spans> {
  const [
    { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags },
    sdk,
    otlp,
    { resourceFromAttributes },
  ] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ]);
  const ids = new ChosenIds();
  const exporter = new otlp.OTLPTraceExporter({
    url: `${endpoint.replace(/\/+$/, '')}/v1/traces`,
    timeoutMillis: exportTimeoutMs,
  });
  const batches = { exporter, scheduledDelayMillis: sendEveryMs, exportTimeoutMillis: exportTimeoutMs };
  const provider = new sdk.TracerProvider({
    idGenerator: ids,
    sampler: new sdk.TraceIdRatioBasedSampler(share),
    resource: resourceFromAttributes({ 'service.name': `token-vault-${service}` }),
    spanProcessors: [new sdk.BatchSpanProcessor(batches)],
  });
  const tracer = provider.getTracer('token-vault');

  function record({ name, traceId, isRoot, startMs, endMs, isFailed, attributes }: Span): void {
    const { trace: id, request } = openTelemetryIds(traceId);
    ids.trace = id;
    ids.span = isRoot ? request : undefined;
    const parent = { traceId: id, spanId: request, traceFlags: TraceFlags.SAMPLED, isRemote: true };
    const context = isRoot ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
    const kind = isRoot ? SpanKind.SERVER : SpanKind.INTERNAL;
    const span = tracer.startSpan(name, { kind, startTime: startMs, attributes: { ...attributes } }, context);
    if (isFailed) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(endMs);
  }

  return { isOn: true, record, close: () => provider.shutdown().catch(() => undefined) };
}
