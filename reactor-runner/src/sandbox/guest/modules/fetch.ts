import { Buffer } from 'buffer';
import type { Internal } from '../bridge.ts';
import { Blob, Body, bytesOf, FormData } from './body.ts';
import { Headers } from './headers.ts';

declare const internal: Internal;

interface Init {
  readonly method?: string;
  readonly headers?: Record<string, unknown>;
  readonly body?: unknown;
  readonly redirect?: string;
  readonly signal?: AbortSignal | null;
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
    const method = String(init.method ?? base?.method ?? 'GET');
    const encoded = init.body === undefined ? undefined : bytesOf(init.body);
    const body = encoded?.bytes ?? base?.peek() ?? null;
    super(body);
    this.url = base?.url ?? new URL(String((input as { href?: string }).href ?? input)).href;
    this.method = standardMethods.has(method.toUpperCase()) ? method.toUpperCase() : method;
    if (body !== null && (this.method === 'GET' || this.method === 'HEAD')) {
      throw new TypeError('A GET or HEAD request cannot have a body');
    }
    this.headers = new Headers(init.headers ?? base?.headers);
    if (encoded?.type !== undefined && !this.headers.has('content-type')) this.headers.set('content-type', encoded.type);
    this.redirect = init.redirect ?? base?.redirect ?? 'follow';
    this.signal = init.signal ?? base?.signal ?? new AbortController().signal;
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
    if (encoded?.type !== undefined && !this.headers.has('content-type')) this.headers.set('content-type', encoded.type);
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
    answer = (await internal.call('fetch', { method, url, headers: [...headers], redirect, body }, signal)) as Answer;
  } catch (error) {
    if (signal.aborted) throw error;
    const cause = error as Error & { code?: string };
    throw Object.assign(new TypeError(`fetch failed: ${cause.message}`, { cause }), { code: cause.code });
  }
  return new Response(Buffer.from(answer.body, 'base64'), answer);
}

export { Blob, FormData, Headers };
