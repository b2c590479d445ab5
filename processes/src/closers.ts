import { endsInTime } from '@token-vault/process';

/** A store that does not answer delays the end of a process by no more. */
const connectionsMs = 5_000;

/** A stack of functions that close parts. The part that was opened last is closed first. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];
  #leftMs: number;

  /** `leftMs`: the time for all connections together. */
  constructor(leftMs = connectionsMs) {
    this.#leftMs = leftMs;
  }

  add<Resource>(resource: Resource, close: (resource: Resource) => Promise<unknown>): Resource {
    this.#closers.push(() => close(resource));
    return resource;
  }

  /** As `add`, for a part with connections and no work to finish: what takes too long is cut off by the end of the process. */
  addConnection<Resource>(resource: Resource, close: (resource: Resource) => Promise<unknown>): Resource {
    return this.add(resource, async (it) => {
      const beganMs = performance.now();
      await endsInTime(close(it), Math.max(1, this.#leftMs));
      this.#leftMs -= performance.now() - beganMs;
    });
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}
