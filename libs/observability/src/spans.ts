import { createHash } from 'node:crypto';

/** A completed step of a request, in any process. Contains names, counts and outcomes; no data of tenants. */
export interface Span {
  readonly name: string;
  /** `SVC-TRACE-ID` of the first request. Events carry it from process to process. */
  readonly traceId: string;
  /** The span of the request itself, the parent of the other steps. */
  readonly isRoot?: boolean;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly isFailed?: boolean;
  readonly attributes?: Readonly<Record<string, string | number>>;
}

export interface Spans {
  /** False: the caller need not make spans. */
  readonly isOn: boolean;
  /** Cheap for the caller: spans are sent later, and dropped when they cannot be sent. */
  record(span: Span): void;
  close(): Promise<void>;
}

export const noSpans: Spans = { isOn: false, record: () => undefined, close: () => Promise.resolve() };

const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

/**
 * The trace id of OpenTelemetry: a UUID without its hyphens; for any other text a hash. The span of the request has the last half of it as
 * its id, so that every process knows the parent of its steps.
 */
export function openTelemetryIds(traceId: string): { readonly trace: string; readonly request: string } {
  const trace = uuid.test(traceId)
    ? traceId.replaceAll('-', '').toLowerCase()
    : createHash('sha256').update(traceId).digest('hex').slice(0, 32);
  return { trace, request: trace.slice(16) };
}
