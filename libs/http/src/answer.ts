import type { IncomingMessage, ServerResponse } from 'node:http';
import { inFlight } from './in-flight.ts';
import { problemDetails, toProblem, type Problem } from './problem.ts';
import { traceIdOf } from './trace-id.ts';

function end(response: ServerResponse, status: number, contentType: string, body: unknown): void {
  response.statusCode = status;
  // No cache between the vault and the caller may store an answer.
  response.setHeader('Cache-Control', 'no-store');
  if (body === undefined) {
    if (status !== 204) response.setHeader('Content-Length', '0');
    response.end();
    return;
  }
  const bytes = Buffer.from(JSON.stringify(body), 'utf8');
  response.setHeader('Content-Type', contentType);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Length', bytes.length);
  inFlight.send(response, bytes);
}

/** Sends a JSON answer; does nothing when the client has disconnected. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (!response.headersSent && !response.destroyed)
    end(response, status, 'application/json; charset=utf-8', body);
}

const hasUnreadBody = ({ complete, headers }: IncomingMessage): boolean =>
  !complete && (headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0');

/** Sends an error as RFC 9457 problem details. */
export function sendProblem(
  response: ServerResponse,
  problem: Problem,
  instance: string,
  traceId: string,
): void {
  if (response.headersSent || response.destroyed) return;
  // The unread rest of the body would be read as the next request.
  if (problem.endsConnection === true || hasUnreadBody(response.req))
    response.setHeader('Connection', 'close');
  if (problem.retryAfterSeconds !== undefined)
    response.setHeader('Retry-After', String(problem.retryAfterSeconds));
  end(response, problem.status, 'application/problem+json', problemDetails(problem, instance, traceId));
}

/** Tells the router that the service is still starting. It has not read the request, so another replica may answer it. */
export const notBegunHeader = 'SVC-NOT-BEGUN';

/** For code that answers without an app: sends the error as a problem, with the request's trace id. An answer that has begun is cut off. */
export function refuse(request: IncomingMessage, response: ServerResponse, error: Error): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const traceId = traceIdOf(request, response);
  sendProblem(response, toProblem(error), (request.url ?? '/').split('?', 1)[0] ?? '/', traceId);
}
