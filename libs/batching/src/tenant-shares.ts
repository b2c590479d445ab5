/** Who holds a part of a tenant's share: an application. Its sessions, and clients of its proxies without a key, hold as this application. */
export interface Holder {
  readonly tenantId: string;
  readonly applicationId: string;
}

/**
 * Each tenant has a share of something, such as places, and its applications divide it. An application may hold as much as it leaves free: half
 * of a free share, less of one that others use. So one application never stops the others of its tenant.
 */
export class TenantShares {
  readonly #share: number;
  readonly #held = new Map<string, Map<string, number>>();

  constructor(share: number) {
    this.#share = share;
  }

  /** What the tenant's applications hold. What one holds beyond half of that which the larger ones leave is not counted: others find room. */
  heldBy(tenantId: string): number {
    const sizes = [...(this.#held.get(tenantId)?.values() ?? [])].sort((a, b) => b - a);
    return sizes.reduce(
      (counted, size) => counted + Math.min(size, Math.ceil((this.#share - counted) / 2)),
      0,
    );
  }

  /** Whether the application may hold so much more. */
  allows({ tenantId, applicationId }: Holder, size = 1): boolean {
    const own = this.#held.get(tenantId)?.get(applicationId) ?? 0;
    return own + size <= this.#share - this.heldBy(tenantId);
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
}
