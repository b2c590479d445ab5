import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isTraceId } from '@token-vault/contracts';

/** SVC-TRACE-ID of the request when it is acceptable, otherwise a new trace id (rules.md §1). */
export function traceIdOf(request: IncomingMessage): string {
  const given = request.headers['svc-trace-id'];
  return typeof given === 'string' && isTraceId(given) ? given : randomUUID();
}
