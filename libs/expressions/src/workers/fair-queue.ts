/** Waiting items by tenant, taken in turns: however many one tenant has queued, another's waits for one of them at most. */
export class FairQueue<Item> {
  // A Map keeps insertion order: its first key is the tenant whose turn it is.
  readonly #waiting = new Map<string, Item[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  sizeOf(tenantId: string): number {
    return this.#waiting.get(tenantId)?.length ?? 0;
  }

  push(tenantId: string, item: Item): void {
    const items = this.#waiting.get(tenantId);
    if (items === undefined) this.#waiting.set(tenantId, [item]);
    else items.push(item);
    this.#size += 1;
  }

  /** The oldest item of the first tenant whose turn it is that may have one. */
  take(may: (tenantId: string) => boolean): Item | undefined {
    for (const [tenantId, items] of this.#waiting) {
      if (!may(tenantId)) continue;
      const item = items.shift();
      // To the end of the round.
      this.#waiting.delete(tenantId);
      if (items.length > 0) this.#waiting.set(tenantId, items);
      this.#size -= 1;
      return item;
    }
    return undefined;
  }

  /** Takes out an item that waits; false when it does not. */
  remove(tenantId: string, item: Item): boolean {
    const items = this.#waiting.get(tenantId);
    const index = items?.indexOf(item) ?? -1;
    if (items === undefined || index < 0) return false;
    items.splice(index, 1);
    if (items.length === 0) this.#waiting.delete(tenantId);
    this.#size -= 1;
    return true;
  }
}
