import { FairQueue } from './fair-queue.ts';

export interface QueuedOf {
  readonly tenantId: string;
  readonly caller: string;
}

/** Waiting items by tenant and caller. Tenants take turns; in the turns of one tenant, its callers take turns. */
export class CallerQueue<Item extends QueuedOf> {
  /** One entry for each waiting item: the id of its tenant. */
  readonly #turns = new FairQueue<string>();
  readonly #ofTenant = new Map<string, FairQueue<Item>>();

  get size(): number {
    return this.#turns.size;
  }

  sizeOf(tenantId: string): number {
    return this.#turns.sizeOf(tenantId);
  }

  push(item: Item): void {
    const { tenantId, caller } = item;
    const own = this.#ofTenant.get(tenantId) ?? new FairQueue();
    this.#ofTenant.set(tenantId, own);
    own.push(caller, item);
    this.#turns.push(tenantId, tenantId);
  }

  /** Offers the oldest item of each caller in turn until one is accepted. */
  take(accept: (item: Item) => boolean): Item | undefined {
    let taken: Item | undefined;
    this.#turns.take((tenantId) => {
      taken = this.#ofTenant.get(tenantId)?.take((_caller, item) => accept(item));
      this.#tidy(tenantId);
      return taken !== undefined;
    });
    return taken;
  }

  /** Removes a waiting item; false when it does not wait. */
  remove(item: Item): boolean {
    const { tenantId, caller } = item;
    const isRemoved = this.#ofTenant.get(tenantId)?.remove(caller, item) === true;
    if (isRemoved) this.#turns.remove(tenantId, tenantId);
    this.#tidy(tenantId);
    return isRemoved;
  }

  /** Removes all items. */
  clear(): Item[] {
    const items = [...this.#ofTenant.values()].flatMap((own) => own.clear());
    this.#ofTenant.clear();
    this.#turns.clear();
    return items;
  }

  #tidy(tenantId: string): void {
    if (this.#ofTenant.get(tenantId)?.size === 0) this.#ofTenant.delete(tenantId);
  }
}
