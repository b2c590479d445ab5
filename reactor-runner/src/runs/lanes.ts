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
