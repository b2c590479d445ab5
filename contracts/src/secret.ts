const placeholder = '[secret]';

/**
 * Holds plaintext from the parser of a request to `seal`, and from `open` to the function that makes the answer. Conversions to text (templates, JSON,
 * `util.inspect`, loggers) give `[secret]`. Only `expose()` returns the value, so a search for it finds every place that handles plaintext.
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

/** For a field that may be absent. */
export function secretIfGiven<T>(value: T | undefined): Secret<T> | undefined {
  return value === undefined ? undefined : secret(value);
}

export function isSecret(value: unknown): value is Secret<unknown> {
  return Secret.is(value);
}
