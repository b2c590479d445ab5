/** The result of one item of a batch. An Error rejects only the caller of that item. */
type Outcome<Result> = Result | Error;

export interface BatcherOptions<Item, Result> {
  /**
   * Handles a batch in one round trip; returns one outcome for each item, in order. If it throws, all callers of the batch are rejected.
   */
  readonly run: (items: readonly Item[]) => Promise<readonly Outcome<Result>[]>;
  /** Maximum number of items of a batch. */
  readonly maxItems: number;
  /** Maximum number of batches under way. 1 makes a group commit: items that arrive meanwhile form the next batch. */
  readonly concurrency?: number;
  /** Two items that share a key are never in the same batch, and keep their order. */
  readonly keys?: (item: Item) => readonly string[];
  /**
   * Under load, the next batch waits to become as large as the last one (as `commit_delay` and `commit_siblings` of Postgres). It waits
   * after a batch of at least `siblings` items, until as many items are waiting or `ms` are over.
   */
  readonly linger?: {
    readonly siblings: number;
    readonly ms: number;
    /** The size that the next batch waits for, if it is not the size of the last one. */
    readonly items?: number;
  };
}

export interface Batcher<Item, Result> {
  add(item: Item): Promise<Result>;
  /** Resolves when all items that were added before the call are done. */
  idle(): Promise<void>;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers concurrent calls into one round trip: while a batch is under way, new calls wait and form the next one. A single call waits no
 * longer than the current turn of the event loop. A call that comes after the linger time of a batch does not wait for it.
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
  /** The size that the next batch waits for until the linger time is over. */
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
      // One turn of the event loop lets all requests that were parsed together join the same batch.
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
    const { keys: keysOf, maxItems } = this.#options;
    if (!keysOf) return this.#waiting.splice(0, maxItems);
    const keys = new Set<string>();
    const taken: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    for (const entry of this.#waiting) {
      const own = keysOf(entry.item);
      if (taken.length < maxItems && !own.some((key) => keys.has(key))) taken.push(entry);
      else left.push(entry);
      for (const key of own) keys.add(key);
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
