import type { Execution } from './execution.ts';

/**
 * How long a run must be still before it counts as waiting. CPU time is known in steps of 10 ms, so code that uses more
 * than a fifth of a core is never still for so long.
 */
const stillMs = 50;
/**
 * The same for a run that asked for another run: it keeps its place, which the other run takes. So a few runs come to their end, and
 * not many begin that wait for each other. The other run may be in another process of the service, or wait for a slow server.
 */
const stillForRunMs = 1_000;

/** The results of the last measurements of a run, while it used no processor time. */
export interface Stillness {
  readonly execution: Execution;
  readonly moves: number;
  readonly cpuMs: number;
  readonly since: number;
  readonly isLongEnough: boolean;
}

/** The result of one measurement of a process. */
export interface Look {
  readonly cpuMs: number;
  readonly rssMb: number;
  /** Whether every thread of the process sleeps. It costs some reads, so it is asked last. */
  readonly isAsleep: () => boolean;
}

/**
 * A run is still while the service owes it the answer to a call, its process uses no CPU time, and all its threads
 * sleep. The last condition is needed on a busy host: a loop that gets no core uses no CPU time either, but it is
 * runnable. A run that holds more memory than an idle process may hold is never still.
 */
export function stillnessOf(
  before: Stillness | undefined,
  execution: Execution,
  { cpuMs, rssMb, isAsleep }: Look,
  mostRssMb: number,
): Stillness | undefined {
  if (!execution.awaitsAnswer || rssMb > mostRssMb || !isAsleep()) return undefined;
  const { moves } = execution;
  const now = performance.now();
  const isSame = before?.execution === execution && before.moves === moves && before.cpuMs === cpuMs;
  const since = isSame ? before.since : now;
  return {
    execution,
    moves,
    cpuMs,
    since,
    isLongEnough: now - since >= (execution.awaitsRun ? stillForRunMs : stillMs),
  };
}

interface Watched {
  readonly execution?: Execution;
  readonly stillness?: Stillness | undefined;
}

/** Whether the run was still at the last look. An answer or a new call ends this at once. */
export const isStill = ({ execution, stillness }: Watched): boolean =>
  execution !== undefined &&
  stillness?.execution === execution &&
  stillness.moves === execution.moves &&
  execution.awaitsAnswer;

/** Whether the run only waits for the network, so that it needs no CPU place. */
export const isWaiting = (slot: Watched): boolean => slot.stillness?.isLongEnough === true && isStill(slot);

interface Held {
  readonly tenantId: string;
  readonly rssMb: number;
}

/**
 * The run to end when all runs together hold more than `mostMb`: the largest one of the tenant that holds the most.
 * Undefined when they hold less.
 */
export function heaviest<Each extends Held>(held: readonly Each[], mostMb: number): Each | undefined {
  const sums = new Map<string, number>();
  for (const { tenantId, rssMb } of held) sums.set(tenantId, (sums.get(tenantId) ?? 0) + rssMb);
  const all = [...sums.values()].reduce((sum, each) => sum + each, 0);
  if (all <= mostMb) return undefined;
  const most = Math.max(...sums.values());
  return held
    .filter(({ tenantId }) => sums.get(tenantId) === most)
    .reduce((largest, each) => (each.rssMb > largest.rssMb ? each : largest));
}
