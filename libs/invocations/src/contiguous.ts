interface Entry<Place> {
  place: Place;
  isDone: boolean;
}

/**
 * How far a sequence is done without a hole. Its parts end in any order; what follows an unfinished one does not count, so
 * that after a crash everything that was not done is found again.
 */
export class ContiguousProgress<Place> {
  readonly #onAdvance: () => void;
  #entries: Entry<Place>[] = [];
  #reached: Place;

  /** `onAdvance` is told that `reached` has changed. */
  constructor(start: Place, onAdvance: () => void = () => undefined) {
    this.#reached = start;
    this.#onAdvance = onAdvance;
  }

  /** The last place up to which, and including which, everything is done. */
  get reached(): Place {
    return this.#reached;
  }

  /** How many places were begun beyond `reached`. */
  get ahead(): number {
    return this.#entries.length;
  }

  /** Begins the next place. Gives the way to say that it is done. */
  begin(place: Place): () => void {
    const entry = { place, isDone: false };
    this.#entries.push(entry);
    return () => {
      entry.isDone = true;
      this.#advance();
    };
  }

  /** The next place asks for nothing. */
  pass(place: Place): void {
    const last = this.#entries.at(-1);
    if (last?.isDone) last.place = place;
    else this.begin(place)();
  }

  #advance(): void {
    const open = this.#entries.findIndex((entry) => !entry.isDone);
    const count = open < 0 ? this.#entries.length : open;
    const last = this.#entries[count - 1];
    if (!last) return;
    this.#entries = this.#entries.slice(count);
    this.#reached = last.place;
    this.#onAdvance();
  }
}
