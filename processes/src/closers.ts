import { setTimeout as delay } from 'node:timers/promises';

/** Time for all connections together. A store that does not answer delays the end of a process by no more. */
const connectionsMs = 5_000;

/** A stack of functions that close parts. The part that was opened last is closed first. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];
  readonly #closed = new AbortController();
  #connectionsEnd: Promise<unknown> | undefined;

  add<Resource>(resource: Resource, close: (resource: Resource) => Promise<unknown>): Resource {
    this.#closers.push(() => close(resource));
    return resource;
  }

  /** As `add`, for a part with connections and no work to finish: after 5 s the end of the process cuts them off. */
  addConnection<Resource>(resource: Resource, close: (resource: Resource) => Promise<unknown>): Resource {
    return this.add(resource, (it) => Promise.race([close(it), this.#connectionsMayEnd()]));
  }

  #connectionsMayEnd(): Promise<unknown> {
    return (this.#connectionsEnd ??= delay(connectionsMs, undefined, { signal: this.#closed.signal }));
  }

  async close(): Promise<void> {
    try {
      for (const close of this.#closers.splice(0).reverse()) await close();
    } finally {
      this.#closed.abort();
    }
  }
}
