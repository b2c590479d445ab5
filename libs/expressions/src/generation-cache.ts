/**
 * A bounded map that forgets what was not used for about one generation. A hit writes nothing (but for the promotion of an
 * older entry), unlike a classic LRU, which reorders on every read; it holds at most two generations.
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

  /** Entries held, counting one twice that was promoted. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }
}
