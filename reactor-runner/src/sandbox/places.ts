import type { SandboxLimits } from './limits.ts';
import type { Job } from './job.ts';
import { defaultRunsPerTenant, type SandboxPoolOptions } from './pool-types.ts';
import type { Slot, Slots } from './slots.ts';
import { isStill, isWaiting } from './waiting.ts';

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

/** The processes of a pool. */
export type BusySlots = Pick<Slots, 'all' | 'count'>;

/** The busy processes of one pool. */
interface Busy {
  /** Without those that run in the place of another one. */
  readonly all: number;
  /** Runs that do not wait for the network, by tenant. A run and the one that runs in its place are one. */
  readonly working: ReadonlyMap<string, number>;
}

const isLent = ({ execution }: Slot): boolean => execution?.job.isLent === true;

function busyOf(slots: BusySlots): Busy {
  const working = new Map<string, number>();
  const lenders = new Set<string | undefined>();
  for (const slot of slots.all()) if (isLent(slot)) lenders.add(slot.execution?.job.waiter?.id);
  const hasLeftPlace = (slot: Slot) =>
    isWaiting(slot) || (isStill(slot) && lenders.has(slot.execution?.job.runId));
  let all = 0;
  for (const slot of slots.all()) {
    if (slot.state !== 'busy' || slot.tenantId === undefined) continue;
    if (!isLent(slot)) all += 1;
    if (!hasLeftPlace(slot)) working.set(slot.tenantId, (working.get(slot.tenantId) ?? 0) + 1);
  }
  return { all, working };
}

/**
 * The CPU places of these runs. A tenant whose runs all go on at once after they waited may have more runs than places.
 * Its runs beyond half of the remaining places are not counted: other tenants begin as if these runs did not exist, and
 * these runs share the CPU at a priority that gets lower the longer they use it.
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
export function mayBegin(
  slots: BusySlots,
  tenantId: string,
  { cpu, processes, runsPerTenant }: Places,
): boolean {
  const { all, working } = busyOf(slots);
  const own = slots.count((slot) => slot.state === 'busy' && slot.tenantId === tenantId && !isLent(slot));
  if (own >= runsPerTenant || (own > 0 && own >= processes - all)) return false;
  const ownWorking = working.get(tenantId) ?? 0;
  return ownWorking === 0 || ownWorking < cpu - placesOfWorking(working, cpu);
}

/**
 * Whether the run may begin in the place of the run that waits for it: one run at a time may. It is not counted when others begin, so
 * that runs which wait for each other never take the last place. The number is bounded for a tenant. The deeper a run is, the more
 * are allowed, so that a run at the bound never waits for a run that cannot begin: the deepest ones wait for none.
 */
export function mayBeginInLentPlace(
  slots: BusySlots,
  { waiter, tenantId }: Job,
  { runsPerTenant }: Places,
): boolean {
  if (waiter === undefined) return false;
  const more = Math.max(1, Math.floor(runsPerTenant / 4));
  const isOwn = (slot: Slot) => isLent(slot) && slot.tenantId === tenantId;
  return (
    slots.count(isOwn) < runsPerTenant + (waiter.depth - 1) * more &&
    slots.count((slot) => isOwn(slot) && slot.execution?.job.waiter?.id === waiter.id) === 0
  );
}

/** The CPU places that are taken: by runs that do not wait, and by idle and starting processes. */
export const heldPlaces = (slots: Slots, { cpu }: Places): number =>
  placesOfWorking(busyOf(slots).working, cpu) + slots.count(({ state }) => state !== 'busy');

export const hasRoom = (slots: Slots, places: Places): boolean =>
  slots.size - slots.count(isLent) < places.processes && heldPlaces(slots, places) < places.cpu;
