import { comparePositions, type EventBatch, type Position, type RecordedEvent } from '../port.ts';
import type { Received } from './live-log.ts';
import type { LogEnd } from './log-end.ts';

/**
 * The position up to which a subscriber got the log, and whether that is the head. Servers report when a subscription has caught up, but
 * not when it falls behind again, and older servers report neither: so the head of the log decides.
 */
export class Progress {
  readonly #logEnd: () => Promise<LogEnd>;
  #position: Position;
  /** The end of the log when it was last read. */
  #end: LogEnd;
  #isLive: boolean;
  #hasToldLive: boolean;

  constructor(logEnd: () => Promise<LogEnd>, after: Position, end: LogEnd) {
    this.#logEnd = logEnd;
    this.#position = after;
    this.#end = end;
    this.#isLive = this.#hasToldLive = comparePositions(after, end.head) >= 0;
  }

  get position(): Position {
    return this.#position;
  }

  get isLive(): boolean {
    return this.#isLive;
  }

  /** Follows another subscription, from `position`, which has not caught up yet. */
  beginAgain(): void {
    this.#isLive = false;
  }

  /** The batch to deliver, or undefined when there is no news. `received` is missing when `events` ends early. */
  async advance(events: readonly RecordedEvent[], received?: Received): Promise<EventBatch | undefined> {
    const before = this.#position;
    this.#position = events.at(-1)?.position ?? before;
    let isCaughtUp = false;
    if (received) {
      await this.#passTo(received.checkpoint);
      isCaughtUp = await this.#isAtHead(received);
    }
    if (this.#position === before && (!isCaughtUp || this.#hasToldLive)) return undefined;
    this.#hasToldLive ||= isCaughtUp;
    return { events, position: this.#position, isCaughtUp };
  }

  /**
   * A checkpoint is limited to the last existing event. The server may place it beyond, where the next event will be. A reader that resumes
   * from there would miss that event, or claim a position beyond the head.
   */
  async #passTo(checkpoint: Position | undefined): Promise<void> {
    if (!checkpoint || comparePositions(checkpoint, this.#position) <= 0) return;
    if (comparePositions(checkpoint, this.#end.last) > 0) this.#end = await this.#logEnd();
    const passed = comparePositions(checkpoint, this.#end.last) > 0 ? this.#end.last : checkpoint;
    if (comparePositions(passed, this.#position) > 0) this.#position = passed;
  }

  async #isAtHead({ isCaughtUp, wasHeld, isMoreWaiting }: Received): Promise<boolean> {
    if (wasHeld) this.#isLive = false;
    if (isCaughtUp) this.#isLive = true;
    if (isMoreWaiting) return false;
    // When the known end is reached, the log is read again, and not before: each read costs a call.
    if (!this.#isLive && comparePositions(this.#position, this.#end.head) >= 0) {
      this.#end = await this.#logEnd();
      this.#isLive = comparePositions(this.#position, this.#end.head) >= 0;
    }
    return this.#isLive;
  }
}
