export interface Allowance {
  /** One more. May exceed what is left: whether it may is asked before, of another thing. */
  readonly spend: (tenantId: string) => void;
  /** Milliseconds until the tenant has something left; 0 now. */
  readonly waitMs: (tenantId: string) => number;
}

/** So much of each tenant at once, and one more each `refillMs`. Tenants that have all of theirs take no memory. */
export function createAllowance(
  atOnce: number,
  refillMs: number,
  now: () => number = () => performance.now(),
): Allowance {
  /** When all is there again. */
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
