import { ContiguousProgress } from '../contiguous.ts';

/** The state of an assigned partition in this process: the messages that it has taken, and those that are done. */
export class Partition {
  readonly #progress: ContiguousProgress<bigint>;
  readonly #first: bigint;
  #taken: bigint;
  #committed: bigint;

  /** `first` is the offset of the first message that was fetched. */
  constructor(first: bigint) {
    this.#first = first;
    this.#progress = new ContiguousProgress(first - 1n);
    this.#taken = this.#committed = first - 1n;
  }

  /** The number of messages that are taken and not done. */
  get unfinished(): number {
    return this.#progress.unfinished;
  }

  /** The next offset to read after a crash, when it has changed since the last `confirm`: all messages before it are done. */
  get uncommitted(): bigint | undefined {
    return this.#progress.reached > this.#committed ? this.#progress.reached + 1n : undefined;
  }

  /** Takes a message; undefined when it was taken before (after a rebalance, messages since the last commit are delivered again). */
  take(offset: bigint): (() => void) | undefined {
    if (offset <= this.#taken) return undefined;
    this.#taken = offset;
    return this.#progress.begin(offset);
  }

  /**
   * After a rebalance the group continues at `fetched`: all messages before it are acknowledged, and none after. Messages that are unfinished
   * here stay unfinished, also when another member has continued meanwhile. False when the group went back to messages that were not taken
   * here.
   */
  resumeAt(fetched: bigint): boolean {
    if (fetched < this.#first) return false;
    // `fetched` may differ from the confirmed offset: when its consumer stops, kafkajs may drop a commit without an error.
    this.#committed = fetched - 1n;
    return true;
  }

  /** The broker has stored that all messages before `next` are done. */
  confirm(next: bigint): void {
    if (next - 1n > this.#committed) this.#committed = next - 1n;
  }
}
