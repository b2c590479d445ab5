import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isTraceId } from '@token-vault/contracts';

/**
 * SVC-TRACE-ID of the request when it is acceptable, otherwise a new trace id. The response carries it, and so a second call for the same
 * response gives the same (rules.md §1).
 */
export function traceIdOf(request: IncomingMessage, response: ServerResponse): string {
  const set = response.getHeader('SVC-TRACE-ID');
  if (typeof set === 'string') return set;
  const given = request.headers['svc-trace-id'];
  const traceId = typeof given === 'string' && isTraceId(given) ? given : randomUUID();
  response.setHeader('SVC-TRACE-ID', traceId);
  return traceId;
}
