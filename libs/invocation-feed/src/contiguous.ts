/** A place that was begun and is not done. All places before it, up to and including `reached`, are done. */
interface Unfinished<Place> {
  reached: Place;
  before: Unfinished<Place> | undefined;
  after: Unfinished<Place> | undefined;
}

/**
 * The last place up to which a sequence is done without a gap. The parts end in any order. Places after an unfinished one do not count, so
 * after a crash every unfinished part is found again. Uses memory for the unfinished parts only, however many later ones are done.
 */
export class ContiguousProgress<Place> {
  readonly #onAdvance: () => void;
  /** The sentinel before the first unfinished place; never done. */
  readonly #front: Unfinished<Place>;
  #last: Unfinished<Place>;
  #unfinished = 0;

  /** `onAdvance` is called when `reached` has changed. */
  constructor(start: Place, onAdvance: () => void = () => undefined) {
    this.#front = this.#last = { reached: start, before: undefined, after: undefined };
    this.#onAdvance = onAdvance;
  }

  /** The last place up to which (inclusive) all places are done. */
  get reached(): Place {
    return this.#front.reached;
  }

  /** The number of places that were begun and are not done. */
  get unfinished(): number {
    return this.#unfinished;
  }

  /** Begins the next place. Returns the function that marks it as done. */
  begin(place: Place): () => void {
    const begun: Unfinished<Place> = { reached: place, before: this.#last, after: undefined };
    this.#last = this.#last.after = begun;
    this.#unfinished += 1;
    return () => this.#end(begun);
  }

  /** The next place needs no work. */
  pass(place: Place): void {
    this.#reach(this.#last, place);
  }

  #end(done: Unfinished<Place>): void {
    const { before, after, reached } = done;
    // It was marked as done before.
    if (before === undefined) return;
    before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    // It must not keep later places alive (ADR 13).
    done.before = done.after = undefined;
    this.#unfinished -= 1;
    this.#reach(before, reached);
  }

  #reach(part: Unfinished<Place>, place: Place): void {
    part.reached = place;
    if (part === this.#front) this.#onAdvance();
  }
}
