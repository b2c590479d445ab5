import { FairQueue } from './fair-queue.ts';
import { TenantShares, type Holder } from './tenant-shares.ts';

/**
 * Waiting items, taken in turns of the tenants, and for each tenant in turns of its applications. An application may have as many items in the
 * queue as it leaves to the others of its tenant.
 */
export class TenantQueue<Item> {
  // The first key is the tenant whose turn it is.
  readonly #waiting = new Map<string, FairQueue<Item>>();
  readonly #shares: TenantShares;
  #size = 0;

  /** @param waitingOfTenant the number of items that may wait */
  constructor(waitingOfTenant: number) {
    this.#shares = new TenantShares(waitingOfTenant);
  }

  get size(): number {
    return this.#size;
  }

  sizeOf(tenantId: string): number {
    return this.#waiting.get(tenantId)?.size ?? 0;
  }

  mayWait(holder: Holder): boolean {
    return this.#shares.allows(holder);
  }

  push(holder: Holder, item: Item): void {
    const { tenantId, applicationId } = holder;
    const items = this.#waiting.get(tenantId) ?? new FairQueue<Item>();
    this.#waiting.set(tenantId, items);
    items.push(applicationId, item);
    this.#shares.take(holder);
    this.#size += 1;
  }

  /**
   * Offers the oldest item of each application, in turn, of each tenant that may be served now, until one is accepted. Its tenant, and its
   * application, go to the end of the round.
   */
  take(
    isServed: (tenantId: string) => boolean,
    accept: (item: Item, holder: Holder) => boolean = () => true,
  ): Item | undefined {
    for (const [tenantId, items] of this.#waiting) {
      if (!isServed(tenantId)) continue;
      const item = items.take((applicationId, each) => {
        const holder = { tenantId, applicationId };
        return accept(each, holder) && this.#left(holder);
      });
      if (item === undefined) continue;
      this.#waiting.delete(tenantId);
      if (items.size > 0) this.#waiting.set(tenantId, items);
      return item;
    }
    return undefined;
  }

  /** Removes a waiting item; false when it does not wait. */
  remove(holder: Holder, item: Item): boolean {
    const items = this.#waiting.get(holder.tenantId);
    if (!items?.remove(holder.applicationId, item)) return false;
    if (items.size === 0) this.#waiting.delete(holder.tenantId);
    return this.#left(holder);
  }

  /** Removes all items. */
  clear(): Item[] {
    const items: Item[] = [];
    const next = () => this.take(() => true);
    for (let item = next(); item !== undefined; item = next()) items.push(item);
    return items;
  }

  #left(holder: Holder): true {
    this.#shares.giveBack(holder);
    this.#size -= 1;
    return true;
  }
}
