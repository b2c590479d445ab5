/** The `Headers` of the fetch family. */
export class Headers {
  readonly #values = new Map<string, string[]>();

  constructor(init?: Headers | Iterable<readonly [string, string]> | Record<string, unknown> | null) {
    if (init === undefined || init === null) return;
    const pairs =
      Symbol.iterator in init ? (init as Iterable<readonly [string, string]>) : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }

  append(name: string, value: unknown): void {
    const key = normalizedName(name);
    this.#values.set(key, [...(this.#values.get(key) ?? []), normalizedValue(value)]);
  }
  set(name: string, value: unknown): void {
    this.#values.set(normalizedName(name), [normalizedValue(value)]);
  }
  get(name: string): string | null {
    return this.#values.get(normalizedName(name))?.join(', ') ?? null;
  }
  has(name: string): boolean {
    return this.#values.has(normalizedName(name));
  }
  delete(name: string): void {
    this.#values.delete(normalizedName(name));
  }
  getSetCookie(): string[] {
    return [...(this.#values.get('set-cookie') ?? [])];
  }
  /** In the form of `node-fetch`: every name with all of its values. */
  raw(): Record<string, string[]> {
    return Object.fromEntries(this.#values);
  }
  forEach(callback: (value: string, name: string, headers: Headers) => void): void {
    for (const [name, value] of this) callback(value, name, this);
  }
  *entries(): Generator<[string, string]> {
    for (const name of [...this.#values.keys()].sort()) {
      if (name !== 'set-cookie') yield [name, this.get(name) as string];
      else for (const cookie of this.getSetCookie()) yield [name, cookie];
    }
  }
  *keys(): Generator<string> {
    for (const [name] of this) yield name;
  }
  *values(): Generator<string> {
    for (const [, value] of this) yield value;
  }
  [Symbol.iterator](): Generator<[string, string]> {
    return this.entries();
  }
  get [Symbol.toStringTag](): string {
    return 'Headers';
  }
}

function normalizedName(name: unknown): string {
  const text = String(name).toLowerCase();
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(text)) throw new TypeError('The header name is not valid');
  return text;
}

function normalizedValue(value: unknown): string {
  const text = String(value).replace(/^[\t\r\n ]+|[\t\r\n ]+$/g, '');
  if (/[\0\r\n]/.test(text)) throw new TypeError('The header value is not valid');
  return text;
}
