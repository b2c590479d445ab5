import type { SandboxLimits } from './limits.ts';
import { defaultRunsPerTenant, type SandboxPoolOptions } from './pool-types.ts';
import type { Slots } from './slots.ts';
import { isWaiting } from './waiting.ts';

/** The limits of a pool (ADR 32). */
export interface Places {
  /** The most processes whose run does not wait for the network, idle ones included. */
  readonly cpu: number;
  /** The most processes. */
  readonly processes: number;
  readonly runsPerTenant: number;
  /** Resident memory of all runs together. */
  readonly mostRssMb: number;
}

/** The resident memory that each process may have when all of them run. A child with little code has 55 MB. */
const rssOfEachMb = 80;

/** @param accounts the number of accounts for processes. Undefined when they have no accounts of their own */
export function placesOf(
  { maxChildren: cpu = 8, maxRunsPerTenant: runsPerTenant = defaultRunsPerTenant }: SandboxPoolOptions,
  { childRssMb }: SandboxLimits,
  accounts?: number,
): Places {
  const processes = Math.max(cpu, Math.min(Math.max(4 * cpu, 2 * runsPerTenant), accounts ?? Infinity));
  const mostRssMb = Math.max(cpu * childRssMb, processes * rssOfEachMb);
  return { cpu, processes, runsPerTenant, mostRssMb };
}

/** The busy processes of one pool. */
interface Busy {
  readonly all: number;
  /** Runs that do not wait for the network, by tenant. */
  readonly working: ReadonlyMap<string, number>;
}

function busyOf(slots: Slots): Busy {
  const working = new Map<string, number>();
  let all = 0;
  for (const slot of slots.all()) {
    if (slot.state !== 'busy' || slot.tenantId === undefined) continue;
    all += 1;
    if (!isWaiting(slot)) working.set(slot.tenantId, (working.get(slot.tenantId) ?? 0) + 1);
  }
  return { all, working };
}

/**
 * The CPU places of these runs. A tenant whose runs all go on at once after they waited may have more runs than places.
 * What it has beyond half of the places that are left counts for nothing: other tenants begin as if it were not there,
 * and its runs share the CPU at a lower priority the longer they use it.
 */
function placesOfWorking(working: ReadonlyMap<string, number>, cpu: number): number {
  let taken = 0;
  for (const runs of [...working.values()].sort((a, b) => b - a))
    taken += Math.min(runs, Math.max(1, Math.floor((cpu - taken) / 2)));
  return taken;
}

/**
 * Whether one more run of the tenant may begin. A tenant may hold as many places as it leaves free for others: half of
 * an empty pool, less of a busy one. So the endless loops of a few tenants cannot take the last place, and neither can
 * runs that wait for a slow network.
 */
export function mayBegin(slots: Slots, tenantId: string, { cpu, processes, runsPerTenant }: Places): boolean {
  const { all, working } = busyOf(slots);
  const own = slots.count((slot) => slot.state === 'busy' && slot.tenantId === tenantId);
  if (own >= runsPerTenant || (own > 0 && own >= processes - all)) return false;
  const ownWorking = working.get(tenantId) ?? 0;
  return ownWorking === 0 || ownWorking < cpu - placesOfWorking(working, cpu);
}

/** The CPU places that are taken: by runs that do not wait, and by idle and starting processes. */
export const heldPlaces = (slots: Slots, { cpu }: Places): number =>
  placesOfWorking(busyOf(slots).working, cpu) + slots.count(({ state }) => state !== 'busy');

export const hasRoom = (slots: Slots, places: Places): boolean =>
  slots.size < places.processes && heldPlaces(slots, places) < places.cpu;
