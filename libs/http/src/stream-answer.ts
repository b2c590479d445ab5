import { isReservedHeader } from '@token-vault/contracts';
import type { AnswerStream } from '@token-vault/operations';
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { restrictForeignAnswer } from './foreign-answer.ts';
import { cutOffStalledReader } from './stalled-reader.ts';

/**
 * Headers of another server's answer that are not sent to the client: those of its connection; cookies, which the browser would store for
 * the vault's host; and those that browsers, caches and proxies would take as instructions of the vault. Other headers are sent unchanged.
 */
const withheld = new RegExp(
  `^(${[
    'connection',
    'keep-alive',
    'proxy-.*',
    'te',
    'trailer',
    'transfer-encoding',
    'upgrade',
    'set-cookie2?',
    'svc-.*',
    'ratelimit.*',
    'cache-control',
    'pragma',
    'expires',
    'age',
    '.*-cache-control',
    'surrogate-.*',
    'cache-.*',
    'access-control-.*',
    'cross-origin-.*',
    'content-security-policy.*',
    'strict-transport-security',
    'public-key-pins.*',
    'alt-svc',
    'clear-site-data',
    'service-worker-allowed',
    'nel',
    'report-to',
    'reporting-endpoints',
    'refresh',
    'secure-session-.*',
    'set-login',
    'use-as-dictionary',
    'accept-ch',
    'critical-ch',
    'origin-trial',
    'sourcemap',
    'speculation-rules',
  ].join('|')})$`,
  'i',
);

const namedByConnection = (headers: AnswerStream['headers']): ReadonlySet<string> =>
  new Set(
    headers
      .filter(([name]) => name.toLowerCase() === 'connection')
      .flatMap(([, value]) => value.toLowerCase().split(','))
      .map((name) => name.trim()),
  );

/**
 * Sends another server's answer to the client while it arrives, no faster than the client reads it. When the server ends it too early, or
 * the client stops reading, the connection is closed: the answer must not look complete. `SVC-PROXY-STATUS` says that the answer is not the
 * vault's own.
 */
export async function sendStream(
  response: ServerResponse,
  { status, headers, body }: AnswerStream,
): Promise<void> {
  if (response.headersSent || response.destroyed) {
    body.destroy();
    return;
  }
  const ofConnection = namedByConnection(headers);
  for (const [name, value] of headers) {
    const isKept = !withheld.test(name) && !isReservedHeader(name) && !ofConnection.has(name.toLowerCase());
    if (isKept) response.appendHeader(name, value);
  }
  response.statusCode = status;
  response.setHeader('SVC-PROXY-STATUS', String(status));
  restrictForeignAnswer(response);
  cutOffStalledReader(response);
  await passOn(body, response);
}

/**
 * Destroys both streams when one of them fails. The failure is in the record of the exchange. Not `pipeline` of Node, which makes an error
 * with a stack each time.
 */
function passOn(body: Readable, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once('close', () => {
      body.destroy();
      resolve();
    });
    const end = () => {
      if (!body.readableEnded) response.destroy();
    };
    if (body.closed) end();
    else
      body
        .on('error', () => undefined)
        .once('close', end)
        .pipe(response);
  });
}
