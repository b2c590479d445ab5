const placeholder = '[secret]';

/**
 * Holds plaintext between the HTTP parser and `seal`, and between `open` and the HTTP writer. Everything that turns
 * a value into text (templates, JSON, `util.inspect`, loggers) gets `[secret]`; `expose()` is the only way out, so
 * that a search for it finds every place that sees plaintext.
 */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  expose(): T {
    return this.#value;
  }

  toString(): string {
    return placeholder;
  }

  toJSON(): string {
    return placeholder;
  }

  [Symbol.toPrimitive](): string {
    return placeholder;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return placeholder;
  }

  static is(value: unknown): value is Secret<unknown> {
    return typeof value === 'object' && value !== null && #value in value;
  }
}

export function secret<T>(value: T): Secret<T> {
  return new Secret(value);
}

export function isSecret(value: unknown): value is Secret<unknown> {
  return Secret.is(value);
}
