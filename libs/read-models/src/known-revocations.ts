/** A confirmed revocation: its generation, and the stream of the entity whose rights it changed. */
export type Revocation = readonly [generation: number, stream: string];

/** The source of rights that were read, and the time of the read. */
export interface ReadRights {
  /** The generation that was known before the read began. */
  readonly generation: number;
  /** The streams of the entities that the rights rest on. */
  readonly streams: readonly string[];
}

/** Older revocations are forgotten, here and in the database. Rights that were read before them are read again. */
export const keptGenerations = 1_000;

/** The revocations that a process knows of, each with the stream that it concerns (ADR 21). An object never changes. */
export class KnownRevocations {
  /** Of the last revocation. Each confirmation increments it, of one revocation or of several at once. */
  readonly generation: number;
  /** Up to here it is not known whom the revocations concerned, so they concern everyone. */
  readonly #completeAfter: number;
  /** The last generation of each stream, ascending. */
  readonly #lastOf: ReadonlyMap<string, number>;

  constructor(
    generation: number,
    completeAfter = generation,
    lastOf: ReadonlyMap<string, number> = new Map(),
  ) {
    this.generation = generation;
    this.#completeAfter = completeAfter;
    this.#lastOf = lastOf;
  }

  /**
   * Adds the revocations up to `generation`, ascending. A generation without a stream was forgotten, or comes from a process that did not
   * name one.
   */
  upTo(generation: number, revocations: readonly Revocation[]): KnownRevocations {
    if (generation === this.generation) return this;
    const named = new Set(revocations.map(([each]) => each));
    let unnamed = generation;
    while (unnamed > this.generation && named.has(unnamed)) unnamed -= 1;
    const isContinued = unnamed === this.generation;
    const completeAfter = Math.max(isContinued ? this.#completeAfter : unnamed, generation - keptGenerations);
    const lastOf = new Map(isContinued ? this.#lastOf : []);
    for (const [each, stream] of revocations) {
      // Deleted first, so that the order stays ascending.
      lastOf.delete(stream);
      lastOf.set(stream, each);
    }
    for (const [stream, last] of lastOf) {
      if (last > completeAfter) break;
      lastOf.delete(stream);
    }
    return new KnownRevocations(generation, completeAfter, lastOf);
  }

  /** Whether no revocation since the read concerns these rights. */
  leave({ generation, streams }: ReadRights): boolean {
    if (generation === this.generation) return true;
    if (generation < this.#completeAfter || generation > this.generation) return false;
    return streams.every((stream) => (this.#lastOf.get(stream) ?? 0) <= generation);
  }
}
