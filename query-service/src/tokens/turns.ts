import { setImmediate as nextTurn } from 'node:timers/promises';

/** Characters of masks that are parsed without others having their turn: some tenths of a millisecond. */
const atOnce = 65_536;

/** Lets other requests have the thread between the tokens of a page whose masks are long. */
export class Turns {
  #sinceTurn = 0;
  #last: Promise<unknown> | undefined;

  /** Before work on so many characters. Undefined when it may be done at once. */
  take(characters: number): Promise<unknown> | undefined {
    this.#sinceTurn += characters;
    if (this.#sinceTurn <= atOnce) return this.#last;
    this.#sinceTurn = 0;
    // One after the other: what waits for the same turn would be done at once all the same.
    const last = this.#last ?? Promise.resolve();
    this.#last = last.then(() => nextTurn());
    return this.#last;
  }
}
