import { setImmediate as nextTurn } from 'node:timers/promises';

/** Maximum number of characters of masks and masked data between two turns of other requests: one or two milliseconds of work. */
const atOnce = 16_384;

/** Lets other requests use the thread between the tokens of a page whose masks, or whose masked data, are long. */
export class Turns {
  #sinceTurn = 0;
  #last: Promise<unknown> | undefined;

  /** Called before work on that many characters. Undefined when the work may begin at once. */
  take(characters: number): Promise<unknown> | undefined {
    this.#sinceTurn += characters;
    if (this.#sinceTurn <= atOnce) return this.#last;
    this.#sinceTurn = 0;
    // Turns are chained. If several tasks waited for the same turn, they would all run at once after it.
    const last = this.#last ?? Promise.resolve();
    this.#last = last.then(() => nextTurn());
    return this.#last;
  }
}
