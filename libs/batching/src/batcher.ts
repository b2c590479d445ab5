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
 * A lone call is not delayed beyond the current turn of the event loop.
 */
export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const concurrency = options.concurrency ?? 1;
  let waiting: Waiting<Item, Result>[] = [];
  const running = new Set<Promise<void>>();
  let isScheduled = false;

  function take(): Waiting<Item, Result>[] {
    const { key } = options;
    if (!key) return waiting.splice(0, options.maxItems);
    const keys = new Set<string>();
    const taken: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    for (const entry of waiting) {
      const name = key(entry.item);
      if (taken.length < options.maxItems && (name === undefined || !keys.has(name))) taken.push(entry);
      else left.push(entry);
      if (name !== undefined) keys.add(name);
    }
    waiting = left;
    return taken;
  }

  async function runBatch(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const outcomes = await options.run(batch.map((entry) => entry.item));
      batch.forEach((entry, index) => {
        const outcome = outcomes[index];
        if (outcome instanceof Error) entry.reject(outcome);
        else entry.resolve(outcome as Result);
      });
    } catch (error) {
      for (const entry of batch) entry.reject(error);
    }
  }

  function pump(): void {
    isScheduled = false;
    while (waiting.length > 0 && running.size < concurrency) {
      const run = runBatch(take()).finally(() => {
        running.delete(run);
        pump();
      });
      running.add(run);
    }
  }

  return {
    add(item) {
      return new Promise<Result>((resolve, reject) => {
        waiting.push({ item, resolve, reject });
        if (isScheduled || running.size >= concurrency) return;
        isScheduled = true;
        // One turn of the loop lets every request that was parsed together join the same batch.
        setImmediate(pump);
      });
    },
    async idle() {
      while (waiting.length > 0 || running.size > 0) {
        if (running.size === 0) await new Promise((resolve) => setImmediate(resolve));
        else await Promise.race(running);
      }
    },
  };
}
