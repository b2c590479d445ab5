import { FairQueue, type Holder } from '@token-vault/batching';
import type { Invocation } from './invocation.ts';

/** Sessions take the turns of their application. */
export const holderOf = ({ tenantId, metadata }: Invocation): Holder => ({
  tenantId,
  applicationId: metadata.application_id ?? metadata.actor.id,
});

/**
 * Runs a few tasks of each tenant at once. The others wait, which costs only memory. So the backlog of one tenant
 * does not delay other tenants. Applications of one tenant take turns: each waits for at most one task of each other one.
 */
export function createLanes(perTenant: number) {
  interface Lane {
    busy: number;
    /** By application. */
    readonly waiting: FairQueue<() => void>;
  }
  const lanes = new Map<string, Lane>();

  return async <Result>(
    { tenantId, applicationId }: Holder,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    const lane = lanes.get(tenantId) ?? { busy: 0, waiting: new FairQueue() };
    lanes.set(tenantId, lane);
    if (lane.busy < perTenant) lane.busy += 1;
    else await new Promise<void>((resolve) => lane.waiting.push(applicationId, resolve));
    try {
      return await work();
    } finally {
      const next = lane.waiting.take(() => true);
      if (next) next();
      else if ((lane.busy -= 1) === 0) lanes.delete(tenantId);
    }
  };
}

/** A few places for each tenant. A task either gets one at once or gets none. */
export function createPlaces(perTenant: number) {
  const taken = new Map<string, number>();

  return {
    /** Gives the function that frees the place, to be called once. Undefined when all places are taken. */
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
