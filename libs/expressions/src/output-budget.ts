import { measure, type Json } from './json.ts';

/**
 * How much may still be put into a result that is composed of many values: without it, a mask that shows half a megabyte a
 * thousand times would be an answer of half a gigabyte. An object that comes again is not measured again.
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

  /** Takes the value's size; false when it does not fit any more. */
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
