import { FairQueue, type Holder } from '@token-vault/batching';

interface Lane {
  busy: number;
  readonly busyOf: Map<string, number>;
  /** By application. */
  readonly waiting: FairQueue<() => void>;
}

function count({ busyOf }: Lane, applicationId: string, added: 1 | -1): void {
  const busy = (busyOf.get(applicationId) ?? 0) + added;
  if (busy > 0) busyOf.set(applicationId, busy);
  else busyOf.delete(applicationId);
}

/**
 * Runs a few tasks of each tenant at once. The others wait, which costs only memory. So the backlog of one tenant
 * does not delay other tenants. Applications of one tenant take turns: each waits for at most one task of each other one.
 * @param moreForOthers places on top, each for an application that has no task under way. So it does not wait for the tasks of another one
 */
export function createLanes(perTenant: number, moreForOthers: number) {
  const lanes = new Map<string, Lane>();
  const begin = (lane: Lane, applicationId: string): boolean => {
    const most = lane.busyOf.has(applicationId) ? perTenant : perTenant + moreForOthers;
    if (lane.busy >= most) return false;
    lane.busy += 1;
    count(lane, applicationId, 1);
    return true;
  };

  return async <Result>(
    { tenantId, applicationId }: Holder,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    const lane = lanes.get(tenantId) ?? { busy: 0, busyOf: new Map(), waiting: new FairQueue() };
    lanes.set(tenantId, lane);
    if (!begin(lane, applicationId))
      await new Promise<void>((resolve) => lane.waiting.push(applicationId, resolve));
    try {
      return await work();
    } finally {
      lane.busy -= 1;
      count(lane, applicationId, -1);
      lane.waiting.take((each) => begin(lane, each))?.();
      if (lane.busy === 0) lanes.delete(tenantId);
    }
  };
}
