import { comparePositions, type Position } from '@token-vault/event-store';

interface Mark {
  position: Position;
  readonly knownMs: number;
}

/** Marks that are closer together than this become one mark, with the time of the earlier one. So their number is small under any load. */
const togetherMs = 250;

/** Remembers when this process learned of events, to decide which of them a projection should have applied by now. */
export class NewestEvent {
  readonly #graceMs: number;
  /** Ascending. Only the first may be older than the grace period. */
  readonly #marks: Mark[] = [];

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  note(position: Position, nowMs: number): void {
    const last = this.#marks.at(-1);
    if (last && comparePositions(position, last.position) <= 0) return;
    if (last && nowMs - last.knownMs < togetherMs) last.position = position;
    else this.#marks.push({ position, knownMs: nowMs });
    this.#forget(nowMs);
  }

  /** The newest event that has been known for longer than the grace period; undefined when there is none. */
  due(nowMs: number): Position | undefined {
    this.#forget(nowMs);
    const [first] = this.#marks;
    return first && this.#isDue(first, nowMs) ? first.position : undefined;
  }

  #isDue({ knownMs }: Mark, nowMs: number): boolean {
    return nowMs - knownMs >= this.#graceMs;
  }

  /** Of the due marks only the last is needed. */
  #forget(nowMs: number): void {
    for (let next = this.#marks[1]; next && this.#isDue(next, nowMs); next = this.#marks[1])
      this.#marks.shift();
  }
}
