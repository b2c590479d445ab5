import { comparePositions, type Position } from '@token-vault/event-store';

interface Mark {
  position: Position;
  readonly knownMs: number;
}

/** Marks closer to each other than this are one, at the time of the earlier: so few are kept under any load. */
const togetherMs = 250;

/** Remembers since when events have been known of, to tell what a projection should have applied by now. */
export class NewestEvent {
  readonly #graceMs: number;
  /** Ascending. The first may be older than the grace period, the others are not. */
  #marks: Mark[] = [];

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

  /** What has been known of for longer than the grace period; undefined when nothing has. */
  due(nowMs: number): Position | undefined {
    this.#forget(nowMs);
    const [first] = this.#marks;
    return first && this.#isDue(first, nowMs) ? first.position : undefined;
  }

  #isDue({ knownMs }: Mark, nowMs: number): boolean {
    return nowMs - knownMs >= this.#graceMs;
  }

  /** Of those that are due the last says it all. */
  #forget(nowMs: number): void {
    const next = this.#marks.findIndex((mark) => !this.#isDue(mark, nowMs));
    const due = next === -1 ? this.#marks.length : next;
    if (due > 1) this.#marks = this.#marks.slice(due - 1);
  }
}
