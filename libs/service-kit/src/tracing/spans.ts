import { createHash } from 'node:crypto';

/** A step of a request that is over, in whichever process it was taken. Names, counts and outcomes; nothing of anybody. */
export interface Span {
  readonly name: string;
  /** `SVC-TRACE-ID` of the request that began it; events carry it from process to process. */
  readonly traceId: string;
  /** The request itself, which the other steps belong to. */
  readonly isRoot?: boolean;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly isFailed?: boolean;
  readonly attributes?: Readonly<Record<string, string | number>>;
}

export interface Spans {
  /** False: do not take the trouble. */
  readonly isOn: boolean;
  /** Costs the caller nothing to speak of: spans are sent later, and dropped when they cannot be. */
  record(span: Span): void;
  close(): Promise<void>;
}

export const noSpans: Spans = { isOn: false, record: () => undefined, close: () => Promise.resolve() };

const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

/**
 * What OpenTelemetry calls a trace: a UUID without its hyphens, of any other text a hash. The span of the request gets the last
 * half of it as its id, so that every process knows the parent of its steps.
 */
export function openTelemetryIds(traceId: string): { readonly trace: string; readonly request: string } {
  const trace = uuid.test(traceId)
    ? traceId.replaceAll('-', '').toLowerCase()
    : createHash('sha256').update(traceId).digest('hex').slice(0, 32);
  return { trace, request: trace.slice(16) };
}
