import { comparePositions, PositionBeyondHeadError, startPosition, type Position } from '../port.ts';
import { readHead, type Queryable } from './reader.ts';

/** The head of the log, which never goes back. */
export class Head {
  readonly #database: Queryable;
  #highest: Position = startPosition;

  constructor(database: Queryable) {
    this.#database = database;
  }

  /** An event is at this position, so the head is not below it. */
  reach(position: Position): void {
    if (comparePositions(position, this.#highest) > 0) this.#highest = position;
  }

  /** @throws PositionBeyondHeadError when the head is below one that this process has seen before. */
  async read(): Promise<Position> {
    // What is seen while the head is read may be newer than the answer.
    const before = this.#highest;
    const head = await readHead(this.#database);
    if (comparePositions(head, before) < 0) throw new PositionBeyondHeadError(before, head);
    this.reach(head);
    return head;
  }
}
