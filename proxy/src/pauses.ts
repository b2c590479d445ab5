import type { Turn } from '@token-vault/batching';

/**
 * Reading so many characters takes less than a millisecond. A look at the processor time takes one or two thousandths of it, longer than reading a short string
 * does, and a body may have five million strings.
 */
const charactersAtOnce = 4 * 1024;

/** Tells the reader of a long text when to give the thread to others. */
export class Pauses {
  readonly #turn: Turn;
  #lookAt = 0;

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  /** Whether the reader, who has come to this place of the text, should call `next` of the turn. */
  isDueAt(place: number): boolean {
    if (place < this.#lookAt) return false;
    this.#lookAt = place + charactersAtOnce;
    return this.#turn.isOver;
  }
}
