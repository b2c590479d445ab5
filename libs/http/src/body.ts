import type { Holder } from '@token-vault/batching';
import { DomainError, secret, ValidationError, type Secret } from '@token-vault/contracts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyTurns } from './body-turns.ts';
import { refuseDepth } from './depth.ts';
import { parseExactly } from './exact-numbers.ts';
import { inFlight, tooMuchAtOnce } from './in-flight.ts';
import { clientSignal, onceOver, RequestAbortedError } from './request-life.ts';

/** rules.md §3. */
export const bodyLimitBytes = 1024 * 1024;
/** Of a request that goes on to another server (docs/reference/proxy.md). */
export const rawBodyLimitBytes = 16 * 1024 * 1024;

const tooLarge = (limitBytes: number) =>
  new DomainError('payload_too_large', `The request body is larger than ${limitBytes / 1024 / 1024} MiB.`);

/**
 * Reads a JSON body; undefined when there is none, whatever its Content-Type (rules.md §1). Malformed UTF-8 is refused,
 * not repaired: a vault gives back what it was given. Calls `begin` when all of it has arrived.
 * @throws DomainError 413 and 415, ValidationError, UnavailableError, RequestAbortedError; none quotes the body
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  holder: Holder,
  begin: () => Promise<void>,
): Promise<Secret<unknown>> {
  const {
    'content-length': length,
    'transfer-encoding': transfer,
    'content-encoding': encoding,
  } = request.headers;
  if (transfer === undefined && (length ?? '0') === '0') {
    await begin();
    return secret(undefined);
  }
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
    throw new DomainError('unsupported_media_type', 'The request body must not be compressed.');
  const bytes = await collectBody(request, response);
  await begin();
  if (bytes.length === 0) return secret(undefined);
  const over = new Promise<void>((resolve) => onceOver(response, resolve));
  const signal = clientSignal(response);
  return bodyTurns.take({ holder, size: bytes.length, over, signal }, () => parseBody(bytes));
}

/**
 * The bytes of a body. They count as memory of the process until the request is over.
 * @throws DomainError 413, UnavailableError, RequestAbortedError
 */
export function collectBody(
  request: IncomingMessage,
  response: ServerResponse,
  limitBytes = bodyLimitBytes,
): Promise<Buffer> {
  const length = Number(request.headers['content-length'] ?? 0);
  if (length > limitBytes) return Promise.reject(tooLarge(limitBytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (act: () => void) => {
      request.off('data', take).off('end', finish).off('error', abort).off('close', abort);
      act();
    };
    const take = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size > limitBytes) settle(() => reject(tooLarge(limitBytes)));
      else if (!inFlight.admits(chunk.length, response)) settle(() => reject(tooMuchAtOnce()));
    };
    const finish = () =>
      settle(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    const abort = () => settle(() => reject(new RequestAbortedError('the client disconnected')));
    request.on('data', take).on('end', finish).on('error', abort).on('close', abort);
  });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Parses a JSON body. Errors of the decoder and of the parser quote their input, so they are not passed on.
 * @throws ValidationError for JSON that the vault could not give back as it was, or that is nested too deeply
 */
export function parseBody(bytes: Buffer): Secret<unknown> {
  refuseDepth(bytes);
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw ValidationError.of('body', 'must be UTF-8');
  }
  try {
    return secret(parseExactly(text));
  } catch (error) {
    if (error instanceof ValidationError) throw error;
    throw ValidationError.of('body', 'is not valid JSON');
  }
}
