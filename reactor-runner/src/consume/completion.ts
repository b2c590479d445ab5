import type { Position } from '@token-vault/event-store';

interface Mark {
  readonly position: Position;
  isDone: boolean;
}

/** How far everything is done, while work ends in any order. */
export class Completion {
  readonly #marks: Mark[] = [];
  #reached: Position;

  constructor(start: Position) {
    this.#reached = start;
  }

  /** Everything up to here is done. */
  get reached(): Position {
    return this.#reached;
  }

  /** Positions come in log order. Call what is returned when the work at this one is done. */
  begin(position: Position): () => void {
    const mark = { position, isDone: false };
    this.#marks.push(mark);
    return () => {
      mark.isDone = true;
      for (let first = this.#marks[0]; first?.isDone === true; first = this.#marks[0]) {
        this.#reached = first.position;
        this.#marks.shift();
      }
    };
  }

  /** There was no work up to here. */
  pass(position: Position): void {
    this.begin(position)();
  }
}
