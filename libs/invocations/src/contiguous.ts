/** A place that was begun and is not done. Everything behind it, up to and including `reached`, is done. */
interface Unfinished<Place> {
  reached: Place;
  before: Unfinished<Place> | undefined;
  after: Unfinished<Place> | undefined;
}

/**
 * How far a sequence is done without a hole. Its parts end in any order; what follows an unfinished one does not count, so
 * that after a crash everything that was not done is found again. Takes memory for what is unfinished, however much has been
 * done beyond it.
 */
export class ContiguousProgress<Place> {
  readonly #onAdvance: () => void;
  /** In front of what is unfinished: never done. */
  readonly #front: Unfinished<Place>;
  #last: Unfinished<Place>;
  #unfinished = 0;

  /** `onAdvance` is told that `reached` has changed. */
  constructor(start: Place, onAdvance: () => void = () => undefined) {
    this.#front = this.#last = { reached: start, before: undefined, after: undefined };
    this.#onAdvance = onAdvance;
  }

  /** The last place up to which, and including which, everything is done. */
  get reached(): Place {
    return this.#front.reached;
  }

  /** How many places were begun and are not done. */
  get unfinished(): number {
    return this.#unfinished;
  }

  /** Begins the next place. Gives the way to say that it is done. */
  begin(place: Place): () => void {
    const begun: Unfinished<Place> = { reached: place, before: this.#last, after: undefined };
    this.#last = this.#last.after = begun;
    this.#unfinished += 1;
    return () => this.#end(begun);
  }

  /** The next place asks for nothing. */
  pass(place: Place): void {
    this.#reach(this.#last, place);
  }

  #end(done: Unfinished<Place>): void {
    const { before, after, reached } = done;
    // Said before.
    if (before === undefined) return;
    before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    // It must not keep alive what comes after it (ADR 13).
    done.before = done.after = undefined;
    this.#unfinished -= 1;
    this.#reach(before, reached);
  }

  #reach(part: Unfinished<Place>, place: Place): void {
    part.reached = place;
    if (part === this.#front) this.#onAdvance();
  }
}
