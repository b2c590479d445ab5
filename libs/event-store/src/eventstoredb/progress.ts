import { comparePositions, type EventBatch, type Position, type RecordedEvent } from '../port.ts';
import type { Received } from './live-log.ts';
import type { LogEnd } from './log-end.ts';

/**
 * The position up to which a subscriber got the log, and whether that is the head. Servers report when a subscription has caught up, but
 * not when it falls behind again, and older servers report neither: so the reader compares its position with the head of the log.
 */
export class Progress {
  readonly #logEnd: () => Promise<LogEnd>;
  #position: Position;
  /** The end of the log when it was last read. */
  #end: LogEnd;
  #isLive: boolean;
  #hasReportedLive: boolean;

  constructor(logEnd: () => Promise<LogEnd>, after: Position, end: LogEnd) {
    this.#logEnd = logEnd;
    this.#position = after;
    this.#end = end;
    this.#isLive = this.#hasReportedLive = comparePositions(after, end.head) >= 0;
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
      await this.#advanceTo(received.checkpoint);
      isCaughtUp = await this.#isAtHead(received);
    }
    if (this.#position === before && (!isCaughtUp || this.#hasReportedLive)) return undefined;
    this.#hasReportedLive ||= isCaughtUp;
    return { events, position: this.#position, isCaughtUp };
  }

  /**
   * A checkpoint is limited to the last existing event. The server may place it beyond, at the place of the next event. A reader that
   * resumes from there would miss that event, or claim a position beyond the head.
   */
  async #advanceTo(checkpoint: Position | undefined): Promise<void> {
    if (!checkpoint || comparePositions(checkpoint, this.#position) <= 0) return;
    if (comparePositions(checkpoint, this.#end.last) > 0) this.#end = await this.#logEnd();
    const passed = comparePositions(checkpoint, this.#end.last) > 0 ? this.#end.last : checkpoint;
    if (comparePositions(passed, this.#position) > 0) this.#position = passed;
  }

  async #isAtHead({ isCaughtUp, wasPaused, hasMore }: Received): Promise<boolean> {
    if (wasPaused) this.#isLive = false;
    if (isCaughtUp) this.#isLive = true;
    if (hasMore) return false;
    // The end of the log is read again only when the known end is reached: each read costs a call.
    if (!this.#isLive && comparePositions(this.#position, this.#end.head) >= 0) {
      this.#end = await this.#logEnd();
      this.#isLive = comparePositions(this.#position, this.#end.head) >= 0;
    }
    return this.#isLive;
  }
}
