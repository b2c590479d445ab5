import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/**
 * The metrics of a process for Prometheus. Labels come from closed lists (operations, event types, names of parts): never a path, a tenant,
 * an id or a value of a request.
 */
export interface Metrics {
  readonly registry: Registry;
  /** A value that is read at each scrape, by label values. Absent from the scrape when `read` throws. */
  gauge(
    name: string,
    help: string,
    label: string,
    read: () => Readonly<Record<string, number>> | Promise<Readonly<Record<string, number>>>,
  ): void;
  /** Reports how many connections of a pool are busy and idle, and how many calls wait for one. */
  watchPool(name: string, pool: PoolCounts): void;
}

/** The properties of a pg.Pool that are read. */
interface PoolCounts {
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
}

function watchPools(registry: Registry): (name: string, pool: PoolCounts) => void {
  const pools = new Map<string, PoolCounts>();
  new Gauge({
    name: 'vault_pool_connections',
    help: 'Connections to Postgres that are busy or idle, and calls that wait for one; by pool.',
    labelNames: ['pool', 'state'],
    registers: [registry],
    collect() {
      for (const [pool, { totalCount, idleCount, waitingCount }] of pools) {
        this.set({ pool, state: 'busy' }, totalCount - idleCount);
        this.set({ pool, state: 'idle' }, idleCount);
        this.set({ pool, state: 'waiting' }, waitingCount);
      }
    },
  });
  return (name, pool) => void pools.set(name, pool);
}

export function createMetrics(service: string): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry });
  return {
    registry,
    watchPool: watchPools(registry),
    gauge(name, help, label, read) {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers: [registry],
        async collect() {
          this.reset();
          try {
            for (const [value, number] of Object.entries(await read())) this.set({ [label]: value }, number);
          } catch {
            // An unavailable part has metrics of its own; the others must still be readable.
          }
        },
      });
    },
  };
}
