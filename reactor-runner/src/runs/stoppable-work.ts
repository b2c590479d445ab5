/** Work that ends when the runner stops, or when its time is over. */
export class StoppableWork {
  /** An array, because a Set keeps removed values alive (ADR 13). */
  readonly #underWay: AbortController[] = [];
  #isStopped = false;

  /** Aborts the signals of all work, now and later. */
  stop(): void {
    this.#isStopped = true;
    this.#underWay.forEach((abort) => abort.abort());
  }

  /**
   * Each work has a signal of its own, which ends with the work. `AbortSignal.timeout` would stay in memory as long as the longest
   * run.
   */
  async run<Result>(timeoutMs: number, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const abort = new AbortController();
    if (this.#isStopped) abort.abort();
    const timer = setTimeout(() => abort.abort(), timeoutMs);
    this.#underWay.push(abort);
    try {
      return await work(abort.signal);
    } finally {
      clearTimeout(timer);
      this.#underWay.splice(this.#underWay.indexOf(abort), 1);
    }
  }
}
