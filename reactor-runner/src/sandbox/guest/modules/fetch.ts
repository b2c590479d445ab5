import { Buffer } from 'buffer';
import type { Internal } from '../bridge.ts';
import { Blob, Body, bytesOf, FormData } from './body.ts';
import type { EncodedBody } from './body.ts';
import { Headers } from './headers.ts';

declare const internal: Internal;

interface Init {
  readonly method?: string;
  readonly headers?: Headers | Record<string, unknown>;
  readonly body?: unknown;
  readonly redirect?: string;
  readonly signal?: AbortSignal | null;
}

function defined({ method, headers, redirect, signal }: Init): Init {
  const settings = { method, headers, redirect, signal };
  return Object.fromEntries(
    Object.entries(settings).filter(([, value]) => value !== undefined && value !== null),
  );
}

/**
 * The host parses the address, because it checks it anyway. The URL polyfill would add its start to the time of each
 * request.
 */
function addressOf(input: unknown): string {
  return typeof input === 'string' ? input : String((input as { href?: string }).href ?? input);
}

function setDefaultType(headers: Headers, encoded: EncodedBody | undefined): void {
  if (encoded?.type !== undefined && !headers.has('content-type')) headers.set('content-type', encoded.type);
}

function mayHaveBody(method: string): boolean {
  return method !== 'GET' && method !== 'HEAD';
}

function methodName(method: unknown): string {
  const name = String(method);
  return standardMethods.has(name.toUpperCase()) ? name.toUpperCase() : name;
}

const standardMethods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);

export class Request extends Body {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly redirect: string;
  readonly signal: AbortSignal;

  constructor(input: unknown, init: Init = {}) {
    const base = input instanceof Request ? input : undefined;
    const encoded = bytesOf(init.body);
    super(encoded?.bytes ?? base?.peek() ?? null);
    const settings = { method: 'GET', redirect: 'follow', ...(base && defined(base)), ...defined(init) };
    this.url = base?.url ?? addressOf(input);
    this.method = methodName(settings.method);
    if (this.peek() !== null && !mayHaveBody(this.method)) {
      throw new TypeError('A GET or HEAD request cannot have a body');
    }
    this.headers = new Headers(settings.headers);
    setDefaultType(this.headers, encoded);
    this.redirect = settings.redirect;
    this.signal = settings.signal ?? new AbortController().signal;
  }
  clone(): Request {
    return new Request(this);
  }
  get [Symbol.toStringTag](): string {
    return 'Request';
  }
}

interface ResponseInit {
  readonly status?: number;
  readonly statusText?: string;
  readonly headers?: Headers | Iterable<readonly [string, string]> | Record<string, unknown>;
  readonly url?: string;
  readonly redirected?: boolean;
}

export class Response extends Body {
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  readonly url: string;
  readonly redirected: boolean;
  readonly type = 'default';

  constructor(body?: unknown, init: ResponseInit = {}) {
    const encoded = bytesOf(body);
    super(encoded?.bytes ?? null);
    this.status = init.status ?? 200;
    this.statusText = init.statusText ?? '';
    this.headers = new Headers(init.headers);
    setDefaultType(this.headers, encoded);
    this.url = init.url ?? '';
    this.redirected = init.redirected ?? false;
  }
  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }
  clone(): Response {
    return new Response(this.peek(), this);
  }
  static json(value: unknown, init: ResponseInit = {}): Response {
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(JSON.stringify(value), { ...init, headers });
  }
  static error(): Response {
    return new Response(null, { status: 0 });
  }
  get [Symbol.toStringTag](): string {
    return 'Response';
  }
}

interface Answer {
  readonly status: number;
  readonly statusText: string;
  readonly headers: [string, string][];
  readonly body: string;
  readonly url: string;
  readonly redirected: boolean;
}

export async function fetch(input: unknown, init: Init = {}): Promise<Response> {
  const request = new Request(input, init);
  const { method, url, headers, redirect, signal } = request;
  const bytes = request.peek();
  const body = bytes === null ? null : Buffer.from(bytes).toString('base64');
  let answer: Answer;
  try {
    answer = (await internal.call(
      'fetch',
      { method, url, headers: [...headers], redirect, body },
      signal,
    )) as Answer;
  } catch (error) {
    if (signal.aborted) throw error;
    const cause = error as Error & { code?: string };
    throw Object.assign(new TypeError(`fetch failed: ${cause.message}`, { cause }), { code: cause.code });
  }
  return new Response(Buffer.from(answer.body, 'base64'), answer);
}

export { Blob, FormData, Headers };
