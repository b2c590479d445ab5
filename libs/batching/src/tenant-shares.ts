/** Who holds a part of a tenant's share: an application. Its sessions, and clients of its proxies without a key, hold as this application. */
export interface Holder {
  readonly tenantId: string;
  readonly applicationId: string;
}

/**
 * Each tenant has a share of something, such as places, and its applications divide it. An application may hold half of what the others
 * leave. So one application never stops the others of its tenant.
 */
export class TenantShares {
  readonly #share: number;
  readonly #held = new Map<string, Map<string, number>>();

  constructor(share: number) {
    this.#share = share;
  }

  /** What the tenant's applications hold. What one holds beyond half of that which the larger ones leave is not counted: others find room. */
  heldBy(tenantId: string): number {
    return this.#counted([...this.#of(tenantId).values()]);
  }

  /** Whether the application may hold so much more. */
  allows(holder: Holder, size = 1): boolean {
    const others = this.#sizesBeside(holder);
    return this.#sizeOf(holder) + size <= this.#halfBeside(others);
  }

  /** Whether the application holds more than is counted for it. */
  exceeds(holder: Holder): boolean {
    const own = this.#sizeOf(holder);
    const larger = this.#sizesBeside(holder).filter((size) => size >= own);
    return own > this.#halfBeside(larger);
  }

  /** Counts what was given. It may exceed the share, where it cannot be refused. */
  take({ tenantId, applicationId }: Holder, size = 1): void {
    const held = this.#held.get(tenantId) ?? new Map<string, number>();
    this.#held.set(tenantId, held);
    const left = (held.get(applicationId) ?? 0) + size;
    if (left > 0) held.set(applicationId, left);
    else held.delete(applicationId);
    if (held.size === 0) this.#held.delete(tenantId);
  }

  giveBack(holder: Holder, size = 1): void {
    this.take(holder, -size);
  }

  #of(tenantId: string): ReadonlyMap<string, number> {
    return this.#held.get(tenantId) ?? new Map<string, number>();
  }

  #sizeOf({ tenantId, applicationId }: Holder): number {
    return this.#of(tenantId).get(applicationId) ?? 0;
  }

  #sizesBeside({ tenantId, applicationId }: Holder): readonly number[] {
    return [...this.#of(tenantId)].flatMap(([id, size]) => (id === applicationId ? [] : [size]));
  }

  #halfBeside(sizes: readonly number[]): number {
    return Math.ceil((this.#share - this.#counted(sizes)) / 2);
  }

  #counted(sizes: readonly number[]): number {
    return sizes
      .toSorted((a, b) => b - a)
      .reduce((counted, size) => counted + Math.min(size, Math.ceil((this.#share - counted) / 2)), 0);
  }
}
