/**
 * Waiting items by tenant, taken in turns: an item waits for at most one item of each other tenant, however many that tenant has queued.
 */
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

  /** The item goes before those of its tenant that wait. */
  pushFirst(tenantId: string, item: Item): void {
    this.push(tenantId, item);
    const items = this.#waiting.get(tenantId) ?? [];
    items.unshift(...items.splice(-1));
  }

  /** Offers the oldest item of each tenant in turn until one is accepted; a tenant that was served goes to the end of the round. */
  take(accept: (tenantId: string, item: Item) => boolean): Item | undefined {
    for (const [tenantId, items] of this.#waiting) {
      const [item] = items;
      if (item === undefined || !accept(tenantId, item)) continue;
      items.shift();
      this.#waiting.delete(tenantId);
      if (items.length > 0) this.#waiting.set(tenantId, items);
      this.#size -= 1;
      return item;
    }
    return undefined;
  }

  /** Removes a waiting item; false when it does not wait. */
  remove(tenantId: string, item: Item): boolean {
    const items = this.#waiting.get(tenantId);
    const index = items?.indexOf(item) ?? -1;
    if (items === undefined || index < 0) return false;
    items.splice(index, 1);
    if (items.length === 0) this.#waiting.delete(tenantId);
    this.#size -= 1;
    return true;
  }

  /** Removes all items of a tenant. */
  removeAll(tenantId: string): Item[] {
    const items = this.#waiting.get(tenantId) ?? [];
    this.#waiting.delete(tenantId);
    this.#size -= items.length;
    return items;
  }

  /** Removes all items. */
  clear(): Item[] {
    const items = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    this.#size = 0;
    return items;
  }
}
