import { comparePositions, startPosition, type Position } from '../port.ts';
import type { ServerEvent } from './server-event.ts';
import type { Scope } from './scope.ts';
import type { ServerCalls } from './server-calls.ts';

export interface LogEnd {
  /** Position of the last event, of the vault or of other applications. No checkpoint lies beyond it. */
  readonly last: Position;
  /** Position of the last event of the vault; `startPosition` when there is none. A subscriber at this position has received all events. */
  readonly head: Position;
}

const emptyLog: LogEnd = { last: startPosition, head: startPosition };

/**
 * Finds the end of the log. Other applications may write many events behind the vault's last event. So the result is remembered, and only
 * newer events are searched.
 */
export class LogEnds {
  readonly #calls: ServerCalls;
  #known: LogEnd = emptyLog;

  constructor(calls: ServerCalls) {
    this.#calls = calls;
  }

  async find(scope: Scope): Promise<LogEnd> {
    const newest = await this.#last();
    if (!newest) return emptyLog;
    const last = newest.position;
    const head = scope.includes(newest) ? last : await this.#headBefore(last, scope);
    const end = { last, head };
    this.#known = end;
    return end;
  }

  async #last(): Promise<ServerEvent | undefined> {
    const { events } = await this.#calls.read({ from: 'end', isBackwards: true, maxCount: 1 });
    return events[0];
  }

  async #headBefore(last: Position, scope: Scope): Promise<Position> {
    const known = this.#known;
    const isNewer = comparePositions(last, known.last);
    if (isNewer === 0) return known.head;
    const { filter } = scope;
    if (isNewer > 0) {
      // Starts at the known end, inclusive: that may be an event of the vault.
      const { events } = await this.#calls.search({ from: known.last, maxCount: 2, filter });
      const isAfter = (event: ServerEvent) => comparePositions(event.position, known.last) > 0;
      if (!events.some(isAfter)) return known.head;
    }
    const { events } = await this.#calls.search({ from: 'end', isBackwards: true, maxCount: 1, filter });
    return events[0]?.position ?? startPosition;
  }
}
