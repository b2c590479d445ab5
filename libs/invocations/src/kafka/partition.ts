import { ContiguousProgress } from '../contiguous.ts';

/** What this process knows of one partition that it was given: which messages it has taken, and which of them are done. */
export class Partition {
  readonly #progress: ContiguousProgress<bigint>;
  #taken: bigint;
  #committed: bigint;

  /** `first` is the offset of the first message that was fetched. */
  constructor(first: bigint) {
    this.#progress = new ContiguousProgress(first - 1n);
    this.#taken = this.#committed = first - 1n;
  }

  /** How many messages are taken and not done. */
  get unfinished(): number {
    return this.#progress.unfinished;
  }

  /** The next offset to read after a crash, when it has moved since the last `confirm`: every message before it is done. */
  get uncommitted(): bigint | undefined {
    return this.#progress.reached > this.#committed ? this.#progress.reached + 1n : undefined;
  }

  /** Takes a message; undefined when it was taken before (after a rebalance, messages since the last commit come again). */
  take(offset: bigint): (() => void) | undefined {
    if (offset <= this.#taken) return undefined;
    this.#taken = offset;
    return this.#progress.begin(offset);
  }

  /** Whether others have gone on here meanwhile: the group reads from an offset beyond what this process has done. */
  isOvertaken(fetched: bigint): boolean {
    return fetched > this.#progress.reached + 1n && fetched > this.#committed + 1n;
  }

  /** The broker knows that everything before `next` is done. */
  confirm(next: bigint): void {
    if (next - 1n > this.#committed) this.#committed = next - 1n;
  }
}
