import type { ServerResponse } from 'node:http';
import { allowedCustomHeaders, customContent } from '@token-vault/contracts';
import { restrictForeignAnswer } from './foreign-answer.ts';
import { inFlight } from './in-flight.ts';

/** Statuses whose answers have no body (RFC 9110, 15.3.5, 15.3.6, 15.4.5). */
const withoutBody = new Set([204, 205, 304]);

function endWithoutBody(response: ServerResponse, status: number): void {
  response.removeHeader('Content-Type');
  if (status === 205) {
    // The status 205 does not tell a client where the answer ends, and this answer has neither length nor chunks. So the connection is
    // closed.
    response.removeHeader('Content-Length');
    response.removeHeader('Transfer-Encoding');
    response.setHeader('Connection', 'close');
  }
  response.end();
}

/**
 * Sends the response that reactor code chose (rules.md §10). Headers that instruct proxies are removed. A page in it cannot run scripts or
 * send forms as a page of the vault.
 */
export function sendCustom(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): void {
  if (response.headersSent || response.destroyed) return;
  response.statusCode = status;
  const allowed = allowedCustomHeaders(headers);
  for (const [name, value] of Object.entries(allowed)) response.setHeader(name, value);
  const { text, contentType } = body === undefined ? noContent : customContent(allowed, body);
  if (contentType !== undefined) response.setHeader('Content-Type', contentType);
  restrictForeignAnswer(response);
  if (withoutBody.has(status)) {
    endWithoutBody(response, status);
    return;
  }
  const bytes = Buffer.from(text, 'utf8');
  response.setHeader('Content-Length', bytes.length);
  inFlight.send(response, bytes);
}

const noContent: { text: string; contentType?: string } = { text: '' };
