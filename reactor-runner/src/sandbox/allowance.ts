export interface Allowance {
  /** Uses one unit. It may go below zero: the caller asks `waitMs` before. */
  readonly spend: (tenantId: string) => void;
  /** Milliseconds until the tenant has a unit. 0 when it has one. */
  readonly waitMs: (tenantId: string) => number;
}

/** A number of units for each tenant, and one more each `refillMs`. A tenant with all units takes no memory. */
export function createAllowance(
  atOnce: number,
  refillMs: number,
  now: () => number = () => performance.now(),
): Allowance {
  /** The time at which the tenant has all units again. */
  const fullAt = new Map<string, number>();

  return {
    spend(tenantId) {
      for (const [id, at] of fullAt) if (at <= now()) fullAt.delete(id);
      fullAt.set(tenantId, Math.max(fullAt.get(tenantId) ?? 0, now()) + refillMs);
    },
    waitMs(tenantId) {
      const missingMs = (fullAt.get(tenantId) ?? 0) - now();
      return Math.max(0, missingMs - (atOnce - 1) * refillMs);
    },
  };
}
