/**
 * Lets a few pieces of work of each tenant go on at once; the others wait their turn, at the cost of nothing but memory. So
 * the backlog of one tenant stands in nobody else's way.
 */
export function createLanes(perTenant: number) {
  interface Lane {
    busy: number;
    readonly waiting: (() => void)[];
  }
  const lanes = new Map<string, Lane>();

  return async <Result>(tenantId: string, work: () => Promise<Result>): Promise<Result> => {
    const lane = lanes.get(tenantId) ?? { busy: 0, waiting: [] };
    lanes.set(tenantId, lane);
    if (lane.busy < perTenant) lane.busy += 1;
    else await new Promise<void>((resolve) => lane.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = lane.waiting.shift();
      if (next) next();
      else if ((lane.busy -= 1) === 0) lanes.delete(tenantId);
    }
  };
}

/** A few places for each tenant: one is there or not, nobody waits. */
export function createPlaces(perTenant: number) {
  const taken = new Map<string, number>();

  return {
    /** Undefined when all are taken. To be called once: what gives it back. */
    take(tenantId: string): (() => void) | undefined {
      const count = taken.get(tenantId) ?? 0;
      if (count >= perTenant) return undefined;
      taken.set(tenantId, count + 1);
      return () => {
        const left = (taken.get(tenantId) ?? 1) - 1;
        if (left > 0) taken.set(tenantId, left);
        else taken.delete(tenantId);
      };
    },
  };
}
