/** The part of `https` that HTTP clients of reactors use, built on `fetch`. The body is read as a whole. */
import { Buffer } from 'buffer';
import { EventEmitter } from 'events';
import { Readable } from 'stream';

interface Options {
  readonly protocol?: string;
  readonly hostname?: string;
  readonly host?: string;
  readonly port?: number | string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Record<string, unknown>;
  readonly auth?: string;
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}
type OnResponse = (response: Readable) => void;

class ClientRequest extends EventEmitter {
  readonly #url: string;
  readonly #options: Options;
  readonly #headers: Record<string, unknown>;
  readonly #chunks: Buffer[] = [];
  readonly #abort = new AbortController();
  #isEnded = false;

  constructor(url: string, options: Options, onResponse: OnResponse | undefined) {
    super();
    this.#url = url;
    this.#options = options;
    this.#headers = { ...options.headers };
    if (options.auth !== undefined)
      this.#headers['authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`;
    if (onResponse !== undefined) this.on('response', onResponse);
    if (options.timeout !== undefined) this.setTimeout(options.timeout);
    options.signal?.addEventListener('abort', () => this.destroy());
  }
  setHeader(name: string, value: unknown): void {
    this.#headers[name.toLowerCase()] = value;
  }
  getHeader(name: string): unknown {
    return this.#headers[name.toLowerCase()];
  }
  setTimeout(ms: number, callback?: () => void): this {
    if (callback !== undefined) this.once('timeout', callback);
    setTimeout(() => this.emit('timeout'), ms);
    return this;
  }
  setNoDelay(): void {}
  setSocketKeepAlive(): void {}
  write(chunk: Uint8Array | string, encoding?: string): boolean {
    this.#chunks.push(
      typeof chunk === 'string' ? Buffer.from(chunk, encoding as 'utf8') : Buffer.from(chunk),
    );
    return true;
  }
  end(chunk?: Uint8Array | string): this {
    if (this.#isEnded) return this;
    this.#isEnded = true;
    if (chunk !== undefined && typeof chunk !== 'function') this.write(chunk);
    void this.#send();
    return this;
  }
  abort(): void {
    this.destroy();
  }
  destroy(error?: Error): this {
    this.#abort.abort(error ?? new Error('socket hang up'));
    return this;
  }

  async #send(): Promise<void> {
    try {
      const method = this.#options.method ?? 'GET';
      const body = this.#chunks.length === 0 ? undefined : Buffer.concat(this.#chunks);
      const response = await fetch(this.#url, {
        method,
        headers: this.#headers as Record<string, string>,
        redirect: 'manual',
        signal: this.#abort.signal,
        ...(body === undefined ? {} : { body }),
      });
      const bytes = Buffer.from(await response.arrayBuffer());
      const message = Object.assign(Readable.from(bytes.length === 0 ? [] : [bytes], { objectMode: false }), {
        statusCode: response.status,
        statusMessage: response.statusText,
        headers: Object.fromEntries(response.headers),
        complete: true,
      });
      this.emit('response', message);
    } catch (error) {
      if (this.listenerCount('error') > 0) this.emit('error', error);
    }
  }
}

function target(options: Options): string {
  const host = options.hostname ?? (options.host ?? 'localhost').replace(/:\d+$/, '');
  const port = options.port === undefined ? '' : `:${options.port}`;
  return `${options.protocol ?? 'https:'}//${host}${port}${options.path ?? '/'}`;
}

export function request(
  first: Options | URL | string,
  second?: OnResponse | Options,
  third?: OnResponse,
): ClientRequest {
  const isAddress = typeof first === 'string' || typeof (first as URL).href === 'string';
  const options = (isAddress ? (typeof second === 'function' ? {} : (second ?? {})) : first) as Options;
  const onResponse = typeof second === 'function' ? second : third;
  const url = isAddress ? String((first as URL).href ?? first) : target(options);
  return new ClientRequest(url, options, onResponse);
}

export function get(
  first: Options | URL | string,
  second?: OnResponse | Options,
  third?: OnResponse,
): ClientRequest {
  return request(first, second, third).end();
}

export class Agent {}
export const globalAgent = new Agent();
export const STATUS_CODES = {};
