import { isReservedHeader } from '@token-vault/contracts';
import type { AnswerStream } from '@token-vault/operations';
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { restrictForeignAnswer } from './foreign-answer.ts';

/** A client that takes no byte of the answer for so long is cut. */
const stalledReaderMs = 30_000;

/**
 * Headers of another server's answer that stay behind: of its connection; cookies, which would be for the vault's own name; and those
 * that would speak for the vault to browsers, caches and proxies. Others go on as they came.
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
 * Sends another server's answer on as it comes, no faster than the client reads it. An answer that breaks off, or that the client stops
 * reading, is cut: it must not look whole. `SVC-PROXY-STATUS` says that the answer is not the vault's own.
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
  response.setTimeout(stalledReaderMs, () => response.destroy());
  await passOn(body, response);
}

/** Both are destroyed when one of them fails; the record of the exchange has the failure. `pipeline` of Node makes an error with a stack each time. */
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
