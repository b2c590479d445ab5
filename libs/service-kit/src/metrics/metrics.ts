import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/**
 * What a process tells Prometheus. Labels come from closed lists (operations, event types, names of parts): never a path, a
 * tenant, an id or anything of a request.
 */
export interface Metrics {
  readonly registry: Registry;
  /** A value that is looked up when somebody asks. By label values; nothing is told when `read` throws. */
  gauge(
    name: string,
    help: string,
    label: string,
    read: () => Readonly<Record<string, number>> | Promise<Readonly<Record<string, number>>>,
  ): void;
}

export function createMetrics(service: string): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry });
  return {
    registry,
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
            // A part that is away is told by its own metrics; the others must still be readable.
          }
        },
      });
    },
  };
}
