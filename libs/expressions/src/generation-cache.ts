/**
 * A bounded map that drops entries that were not used for about one generation. A hit writes nothing (except the promotion of an older
 * entry), unlike a classic LRU, which reorders on every read. It holds at most two generations.
 */
export class GenerationCache<Key, Value> {
  readonly #size: number;
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();

  constructor(generationSize: number) {
    this.#size = generationSize;
  }

  get(key: Key): Value | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: Key, value: Value): void {
    if (this.#young.size >= this.#size) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  /** The number of entries; a promoted entry counts twice. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }
}
