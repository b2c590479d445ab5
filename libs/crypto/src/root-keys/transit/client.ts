import { setTimeout as sleep } from 'node:timers/promises';
import { RootKeyUnavailableError, RootKeyUnusableError } from '../../errors.ts';
import { exchange, type Reply } from './exchange.ts';
import { readAuthority, readToken, requireTransitOptions, type TransitOptions } from './options.ts';

/** The transit engine understood the request and refused it (400). `words` are texts of the engine: compare them, never show them. */
export class TransitRefusal extends Error {
  readonly words: string;
  constructor(words: string) {
    super('transit refused');
    this.words = words;
  }
}

export interface TransitClient {
  /** Host and path of the key, for messages. */
  readonly place: string;
  read(path: string): Promise<unknown>;
  /** @throws TransitRefusal */
  write(path: string, body: object): Promise<unknown>;
}

const firstPauseMs = 100;
const longestPauseMs = 3_000;

/** Error codes of Node and OpenSSL for a certificate that is not trusted. A later attempt would fail too. */
const distrust = /^(CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|ERR_TLS_|ERR_SSL_|HOSTNAME_MISMATCH|EPROTO)/;

type Outcome =
  | { readonly data: unknown }
  | { readonly refusal: string }
  | { readonly never: string }
  | { readonly later: string; readonly pauseMs: number };

function wordsOf(json: unknown): string {
  const errors = (json as { errors?: unknown } | null | undefined)?.errors;
  return Array.isArray(errors) ? errors.filter((each) => typeof each === 'string').join('; ') : '';
}

/** Meaning of the HTTP statuses of HashiCorp Vault and OpenBao (api-docs: HTTP status codes). */
function judge({ status, json, retryAfterMs }: Reply): Outcome {
  if (status === 200) return { data: (json as { data?: unknown } | null | undefined)?.data };
  const words = wordsOf(json);
  if (status === 503 && /seal/i.test(words)) return { later: 'is sealed (503)', pauseMs: retryAfterMs };
  if (status === 429 || status >= 500) return { later: `answers ${status}`, pauseMs: retryAfterMs };
  if (status === 401 || status === 403)
    return { never: `refuses the token (${status}): it has expired or lacks a permission` };
  if (status === 404) return { never: 'has no such key (404)' };
  if (status >= 300 && status < 400)
    return { never: `sends elsewhere (${status}): name the active node, or let standbys forward` };
  if (status === 400) return { refusal: words };
  return { never: `answers ${status}` };
}

function judgeFailure(error: unknown): Outcome {
  const { code = 'no answer', name } = error as NodeJS.ErrnoException;
  if (code === 'ABORT_ERR' || name === 'TimeoutError')
    return { later: 'does not answer in time', pauseMs: 0 };
  if (distrust.test(code)) return { never: `has a certificate that is not trusted (${code})` };
  return { later: `cannot be reached (${code})`, pauseMs: 0 };
}

const headersOf = async (options: TransitOptions, body: object | undefined) => ({
  'X-Vault-Token': await readToken(options),
  'X-Vault-Request': 'true',
  ...(options.namespace === undefined ? {} : { 'X-Vault-Namespace': options.namespace }),
  ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
});

/**
 * A client of a transit engine. Each call has a time limit and is repeated with growing pauses when the engine is sealed, overloaded or
 * does not answer. Every call may be repeated without harm.
 * @throws RootKeyUnusableError, also from every call: an operator has to act.
 * @throws RootKeyUnavailableError from a call: a later call may succeed.
 */
export function createTransitClient(options: TransitOptions): TransitClient {
  requireTransitOptions(options);
  const { url, key, mount = 'transit', attemptMs = 5_000, deadlineMs = 15_000 } = options;
  const base = `${url.replace(/\/+$/, '')}/v1/${mount}`;
  const place = `${new URL(url).host}/${mount}/${key}`;

  async function attempt(path: string, body: object | undefined, timeoutMs: number): Promise<Outcome> {
    const headers = await headersOf(options, body);
    const authority = await readAuthority(options);
    try {
      const reply = await exchange({
        method: body === undefined ? 'GET' : 'POST',
        url: new URL(`${base}/${path}`),
        headers,
        body: body && JSON.stringify(body),
        authority,
        timeoutMs,
      });
      return judge(reply);
    } catch (error) {
      return judgeFailure(error);
    }
  }

  async function call(path: string, body?: object): Promise<unknown> {
    const end = performance.now() + deadlineMs;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const leftMs = Math.max(1, Math.ceil(end - performance.now()));
      const outcome = await attempt(path, body, Math.min(attemptMs, leftMs));
      if ('data' in outcome) return outcome.data;
      if ('refusal' in outcome) throw new TransitRefusal(outcome.refusal);
      if ('never' in outcome) throw new RootKeyUnusableError(`root key: transit ${place} ${outcome.never}`);
      // Up to half of the pause is random, so that many vaults do not all repeat at the same time.
      const waitMs = Math.max(outcome.pauseMs, pauseMs * (0.5 + Math.random() / 2));
      if (performance.now() + waitMs >= end)
        throw new RootKeyUnavailableError(`root key: transit ${place} ${outcome.later}; try again later`);
      await sleep(waitMs);
    }
  }

  return { place, read: (path) => call(path), write: (path, body) => call(path, body) };
}
