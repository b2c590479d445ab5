import { measure, type Json } from './json.ts';

/**
 * The remaining size of a result that is composed of many values. Without it, a mask that shows half a megabyte a thousand times would give
 * an answer of half a gigabyte. An object that occurs again is not measured again.
 */
export class OutputBudget {
  readonly #size: number;
  #left: number;
  #sizes: WeakMap<object, number> | undefined;

  constructor(size: number) {
    this.#size = size;
    this.#left = size;
  }

  get used(): number {
    return this.#size - this.#left;
  }

  /** Subtracts the value's size; false when the value does not fit. */
  admits(value: Json): boolean {
    this.#left -=
      typeof value === 'object' && value !== null ? this.#sizeOf(value) : measure(value, Infinity);
    return this.#left >= 0;
  }

  #sizeOf(value: object): number {
    this.#sizes ??= new WeakMap();
    const known = this.#sizes.get(value);
    if (known !== undefined) return known;
    const size = measure(value, this.#left);
    this.#sizes.set(value, size);
    return size;
  }
}
