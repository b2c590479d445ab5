import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Logger } from '@token-vault/observability';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { abandonKey } from './abandon-key.ts';
import {
  createSweepRecord,
  doubtOf,
  type Doubt,
  type Mark,
  type SweepRecord,
  type UnneededKey,
} from './key-sweep-record.ts';

export interface KeySweepOptions {
  readonly store: Pick<EventStore, 'append' | 'end' | 'readStoredStream' | 'readStoredBackwards'>;
  readonly keyRing: Pick<KeyRing, 'destroyKeys'>;
  /** The primary of the database of the key ring and of the read models. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onSwept?: ((keys: number) => void) | undefined;
  /** The age at which a key is looked at, and the most that the clocks of writers may differ. An hour by default. */
  readonly graceMs?: number;
}

const hourMs = 3_600_000;
const task = 'key-sweep';

/**
 * Destroys data keys whose event never came: their writer died between key and append (ADR 2).
 *
 * That no append may still bring the event is not left to time: `abandonKey` makes a late one fail. That the log is the true one, and not an
 * older copy, is checked by what the passes before have noted, also between the abandonment and the destruction.
 */
export class KeySweep {
  readonly #options: KeySweepOptions;
  readonly #records: ReturnType<typeof createSweepRecord>;

  constructor(options: KeySweepOptions) {
    this.#options = options;
    this.#records = createSweepRecord(options.pool, options.graceMs ?? hourMs);
  }

  /** Looks at the keys that have reached their age since the last pass. Gives the number of destroyed keys. */
  async pass(signal: AbortSignal): Promise<number> {
    for (let total = 0; ;) {
      const { destroyed, isDone } = await this.#passOnce(signal);
      total += destroyed;
      if (isDone || signal.aborted) return total;
    }
  }

  async #passOnce(signal: AbortSignal): Promise<{ destroyed: number; isDone: boolean }> {
    const nothing = { destroyed: 0, isDone: true };
    const { store, clock } = this.#options;
    // Read before the end of the log, because the read models follow the log meanwhile.
    const noted = await this.#records.read();
    const { record } = noted;
    const last = await this.#lastEvent();
    if (!last || !record) {
      await this.#startAnew(record ? 'log' : 'start', record, last);
      return nothing;
    }
    const isStored = (mark: Mark) => this.#isStored(mark);
    const doubt = await doubtOf(noted, record, { end: await store.end(), isStored });
    if (doubt) {
      await this.#startAnew(doubt, record, last);
      return nothing;
    }
    const page = await this.#records.page(record);
    const abandoned: UnneededKey[] = [];
    for (const key of page.keys) {
      if (signal.aborted) return nothing;
      if (await abandonKey(store, clock, key)) abandoned.push(key);
    }
    if (abandoned.length > 0 && !(await isStored(record.mark))) {
      await this.#startAnew('log', record, last);
      return nothing;
    }
    const destroyed = await this.#destroy(abandoned);
    await this.#records.advance(record, page.end, last);
    return { destroyed, isDone: page.isLast };
  }

  async #startAnew(
    doubt: Doubt | 'start',
    before: SweepRecord | undefined,
    last: Mark | undefined,
  ): Promise<void> {
    const { logger } = this.#options;
    if (doubt === 'log') logger.warn({ task }, 'the log is not the one of before: keys made until now stay');
    await this.#records.begin(before, last);
  }

  async #lastEvent(): Promise<Mark | undefined> {
    for await (const [event] of this.#options.store.readStoredBackwards()) return event;
    return undefined;
  }

  async #isStored({ stream, revision, id, position }: Mark): Promise<boolean> {
    const one = { from: revision, maxCount: 1 };
    for await (const event of this.#options.store.readStoredStream(stream, one))
      return event.revision === revision && event.id === id && event.position === position;
    return false;
  }

  async #destroy(keys: readonly UnneededKey[]): Promise<number> {
    const { keyRing, logger, onSwept } = this.#options;
    let count = 0;
    for (const { id, tenantId } of keys) count += (await keyRing.destroyKeys(tenantId, [id])).length;
    if (count > 0) {
      onSwept?.(count);
      logger.info({ task, count }, 'data keys were destroyed whose event never came');
    }
    return count;
  }
}
