import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

const acceptable = /^[\x21-\x7e]{1,128}$/;

/** SVC-TRACE-ID of the request when it is printable and short, otherwise a new one (decisions.md §1). */
export function traceIdOf(request: IncomingMessage): string {
  const given = request.headers['svc-trace-id'];
  return typeof given === 'string' && acceptable.test(given) ? given : randomUUID();
}
