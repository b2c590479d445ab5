/** A run that code asked for begins within 30 s, or never. */
const rememberedMs = 60_000;

/** The runs that ended while their code waited for another run, which may not have come to the pool yet. */
export class EndedRuns {
  readonly #endedAtMs = new Map<string, number>();

  add(runId: string): void {
    const now = performance.now();
    // The oldest come first.
    for (const [id, at] of this.#endedAtMs) {
      if (now - at < rememberedMs) break;
      this.#endedAtMs.delete(id);
    }
    this.#endedAtMs.set(runId, now);
  }

  delete(runId: string): void {
    this.#endedAtMs.delete(runId);
  }

  has(runId: string): boolean {
    return this.#endedAtMs.has(runId);
  }
}
