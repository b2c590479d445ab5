import type { Response } from 'express';
import { problemDetails, type Problem } from './problem.ts';

function end(response: Response, status: number, contentType: string, body: unknown): void {
  response.statusCode = status;
  // Nothing of a vault belongs in a cache between it and its caller.
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
  response.end(bytes);
}

/** Sends an answer as it is; nothing when the client has gone. */
export function sendJson(response: Response, status: number, body: unknown): void {
  if (!response.headersSent && !response.destroyed)
    end(response, status, 'application/json; charset=utf-8', body);
}

/** Sends an error as RFC 9457 problem details. */
export function sendProblem(response: Response, problem: Problem, instance: string, traceId: string): void {
  if (response.headersSent || response.destroyed) return;
  if (problem.retryAfterSeconds !== undefined)
    response.setHeader('Retry-After', String(problem.retryAfterSeconds));
  end(response, problem.status, 'application/problem+json', problemDetails(problem, instance, traceId));
}
