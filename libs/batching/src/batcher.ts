/** What one member of a batch ends as. An Error rejects only that member's caller. */
export type Outcome<Result> = Result | Error;

export interface BatcherOptions<Item, Result> {
  /** Handles a batch in one round trip; gives one outcome an item, in order. A throw rejects the whole batch. */
  readonly run: (items: readonly Item[]) => Promise<readonly Outcome<Result>[]>;
  /** Most items of one batch. */
  readonly maxItems: number;
  /** Batches under way at once; 1 makes a group commit (what arrives meanwhile forms the next batch). */
  readonly concurrency?: number;
  /** Two items with the same key never share a batch and keep their order. */
  readonly key?: (item: Item) => string | undefined;
  /**
   * Under load, how long the next batch waits to become as big as the last (as `commit_delay` and `commit_siblings` of
   * Postgres): after one of at least `siblings`, for as many items or `ms`, whichever comes first.
   */
  readonly linger?: {
    readonly siblings: number;
    readonly ms: number;
    /** How big the next batch waits to become, when not as big as the last. */
    readonly items?: number;
  };
}

export interface Batcher<Item, Result> {
  add(item: Item): Promise<Result>;
  /** Resolves when everything added so far has ended. */
  idle(): Promise<void>;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers concurrent calls into one round trip: while a batch is under way, new calls wait and form the next.
 * A lone call is not delayed beyond the current turn of the event loop; none is that comes later than a batch lingers.
 */
export const createBatcher = <Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> =>
  new GatheringBatcher(options);

class GatheringBatcher<Item, Result> implements Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  readonly #concurrency: number;
  #waiting: Waiting<Item, Result>[] = [];
  #running = 0;
  #whenBatchEnds: (() => void)[] = [];
  #isScheduled = false;
  /** How big the next batch had better be, until the time is up. */
  #awaited = 0;
  #lingering: NodeJS.Timeout | undefined;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
    this.#concurrency = options.concurrency ?? 1;
  }

  add(item: Item): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#isScheduled || this.#running >= this.#concurrency) return;
      this.#isScheduled = true;
      // One turn of the loop lets every request that was parsed together join the same batch.
      setImmediate(() => this.#pump());
    });
  }

  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#running > 0) {
      this.#stopLingering();
      this.#pump();
      await new Promise<void>((resolve) => this.#whenBatchEnds.push(resolve));
    }
  }

  #pump(): void {
    this.#isScheduled = false;
    if (this.#waiting.length < this.#awaited) return;
    this.#stopLingering();
    while (this.#waiting.length > 0 && this.#running < this.#concurrency) {
      const batch = this.#take();
      this.#running++;
      void this.#run(batch).then(() => {
        this.#running--;
        this.#linger(batch.length);
        this.#pump();
        this.#whenBatchEnds.splice(0).forEach((tell) => tell());
      });
    }
  }

  #take(): Waiting<Item, Result>[] {
    const { key, maxItems } = this.#options;
    if (!key) return this.#waiting.splice(0, maxItems);
    const keys = new Set<string>();
    const taken: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    for (const entry of this.#waiting) {
      const name = key(entry.item);
      if (taken.length < maxItems && (name === undefined || !keys.has(name))) taken.push(entry);
      else left.push(entry);
      if (name !== undefined) keys.add(name);
    }
    this.#waiting = left;
    return taken;
  }

  async #run(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const outcomes = await this.#options.run(batch.map((entry) => entry.item));
      batch.forEach((entry, index) => {
        const outcome = outcomes[index];
        if (outcome instanceof Error) entry.reject(outcome);
        else entry.resolve(outcome as Result);
      });
    } catch (error) {
      for (const entry of batch) entry.reject(error);
    }
  }

  #linger(lastSize: number): void {
    const { linger } = this.#options;
    if (!linger || lastSize < linger.siblings) return;
    this.#stopLingering();
    this.#awaited = linger.items ?? lastSize;
    this.#lingering = setTimeout(() => {
      this.#stopLingering();
      this.#pump();
    }, linger.ms);
  }

  #stopLingering(): void {
    clearTimeout(this.#lingering);
    this.#awaited = 0;
  }
}
