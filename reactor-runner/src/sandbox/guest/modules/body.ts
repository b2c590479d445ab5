import { Buffer } from 'buffer';

/** A binary value with a type: the part that `fetch` needs. */
export class Blob {
  readonly type: string;
  readonly #bytes: Uint8Array;

  constructor(parts: Iterable<unknown> = [], { type = '' }: { type?: string } = {}) {
    this.#bytes = Buffer.concat(
      [...parts].map((part) =>
        Buffer.from(part instanceof Blob ? part.#bytes : (bytesOf(part)?.bytes ?? [])),
      ),
    );
    this.type = String(type).toLowerCase();
  }
  get size(): number {
    return this.#bytes.length;
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return new Uint8Array(this.#bytes).buffer;
  }
  async text(): Promise<string> {
    return Buffer.from(this.#bytes).toString('utf8');
  }
  get bytesNow(): Uint8Array {
    return this.#bytes;
  }
  get [Symbol.toStringTag](): string {
    return 'Blob';
  }
}

/** Form fields; sent as `multipart/form-data`. */
export class FormData {
  readonly #fields: [name: string, value: Blob | string, filename?: string][] = [];

  append(name: string, value: unknown, filename?: string): void {
    const kept = value instanceof Blob ? value : String(value);
    this.#fields.push(filename === undefined ? [String(name), kept] : [String(name), kept, String(filename)]);
  }
  set(name: string, value: unknown, filename?: string): void {
    this.delete(name);
    this.append(name, value, filename);
  }
  delete(name: string): void {
    for (let at = this.#fields.length - 1; at >= 0; at--)
      if (this.#fields[at]?.[0] === name) this.#fields.splice(at, 1);
  }
  get(name: string): Blob | string | null {
    return this.#fields.find(([each]) => each === name)?.[1] ?? null;
  }
  getAll(name: string): (Blob | string)[] {
    return this.#fields.filter(([each]) => each === name).map(([, value]) => value);
  }
  has(name: string): boolean {
    return this.get(name) !== null;
  }
  *entries(): Generator<[string, Blob | string]> {
    for (const [name, value] of this.#fields) yield [name, value];
  }
  forEach(callback: (value: Blob | string, name: string) => void): void {
    for (const [name, value] of this) callback(value, name);
  }
  [Symbol.iterator](): Generator<[string, Blob | string]> {
    return this.entries();
  }
  get [Symbol.toStringTag](): string {
    return 'FormData';
  }

  encode(boundary: string): Uint8Array {
    const quoted = (text: string): string => text.replace(/["\r\n]/g, (mark) => encodeURIComponent(mark));
    const parts = this.#fields.flatMap(([name, value, filename]) => {
      const file = value instanceof Blob ? `; filename="${quoted(filename ?? 'blob')}"` : '';
      const type =
        value instanceof Blob ? `\r\ncontent-type: ${value.type || 'application/octet-stream'}` : '';
      const head = `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(name)}"${file}${type}\r\n\r\n`;
      return [
        Buffer.from(head),
        Buffer.from(value instanceof Blob ? value.bytesNow : value),
        Buffer.from('\r\n'),
      ];
    });
    return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]);
  }
}

export interface EncodedBody {
  readonly bytes: Uint8Array;
  readonly type?: string;
}

/* eslint-disable @typescript-eslint/no-base-to-string -- what is no binary value is sent as its text, as fetch does */
export function bytesOf(body: unknown): EncodedBody | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === 'string') return { bytes: Buffer.from(body), type: 'text/plain;charset=UTF-8' };
  if (body instanceof ArrayBuffer) return { bytes: new Uint8Array(body) };
  if (ArrayBuffer.isView(body))
    return { bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength) };
  if (body instanceof Blob) return { bytes: body.bytesNow, ...(body.type === '' ? {} : { type: body.type }) };
  if (body instanceof FormData) {
    const boundary = `----form-${Math.random().toString(36).slice(2)}${Date.now().toString(36)}`;
    return { bytes: body.encode(boundary), type: `multipart/form-data; boundary=${boundary}` };
  }
  if (
    typeof (body as { append?: unknown }).append === 'function' &&
    typeof (body as { toString?: unknown }).toString === 'function'
  ) {
    return { bytes: Buffer.from(String(body)), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  }
  return { bytes: Buffer.from(String(body)), type: 'text/plain;charset=UTF-8' };
}

/* eslint-enable @typescript-eslint/no-base-to-string */

/** The common part of `Request` and `Response`: a body that can be read once. */
export class Body {
  #bytes: Uint8Array | null;
  #used = false;

  constructor(bytes: Uint8Array | null) {
    this.#bytes = bytes;
  }
  get bodyUsed(): boolean {
    return this.#used;
  }
  /** Streams are not offered; null tells libraries to read the whole body. */
  get body(): null {
    return null;
  }
  peek(): Uint8Array | null {
    if (this.#used) throw new TypeError('The body has already been read');
    return this.#bytes;
  }
  async buffer(): Promise<Buffer> {
    const bytes = this.peek();
    this.#used = bytes !== null;
    return Buffer.from(bytes ?? []);
  }
  async bytes(): Promise<Uint8Array> {
    return new Uint8Array(await this.buffer());
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return new Uint8Array(await this.buffer()).buffer;
  }
  async text(): Promise<string> {
    return (await this.buffer()).toString('utf8').replace(/^\ufeff/, '');
  }
  async json(): Promise<unknown> {
    return JSON.parse(await this.text()) as unknown;
  }
  async blob(): Promise<Blob> {
    return new Blob([await this.bytes()]);
  }
}
