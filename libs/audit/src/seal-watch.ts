import { streams } from '@token-vault/contracts';
import {
  comparePositions,
  parsePosition,
  startPosition,
  type Position,
  type StoredEvent,
} from '@token-vault/event-store';
import { errorFields } from '@token-vault/observability';
import { checkpointOf, isSignedBy } from './checkpoint.ts';
import type { KnownCheckpoints } from './known-checkpoints.ts';
import { readUpTo } from './read-up-to.ts';
import { lastStretch, sealedTenantOf, type SealerOptions } from './sealer.ts';
import { publicKeyOf } from './signature.ts';

/** Without a fault, an event waits for two passes of a sealer at most, and a look may be half a minute late. */
const lateMs = 180_000;

/** The head of the log at a time of this process. */
interface SeenHead {
  readonly position: Position;
  readonly atMs: number;
}

type SealWatchOptions = SealerOptions & { readonly known: KnownCheckpoints };

/**
 * Looks whether the log is sealed, without a lock: who holds the lock of the sealer, or whose process is frozen, stops the seal and not this.
 * A head that was set back is no answer: the store refuses one below an event that it has seen, and a reading has to reach the head.
 * Times are those of this process: a writer of the database can change those of events that are not sealed yet.
 */
export class SealWatch {
  readonly #options: SealWatchOptions;
  /** All that can be sealed up to here is sealed. */
  #sealedTo: Position | undefined;
  /** All events that were in the log at this time are sealed. */
  #sealedAtMs: number;
  /** Heads beyond `#sealedTo`, oldest first. */
  readonly #heads: SeenHead[] = [];
  /** As of the last look. False also while a look lasts, and after one that failed. */
  #isSealed = false;
  #isLooking = false;
  #isLate = false;

  constructor(options: SealWatchOptions) {
    this.#options = options;
    this.#sealedAtMs = this.#nowMs();
  }

  /** How long the oldest event that is not sealed has waited at most; 0 when there is none. */
  unsealedMs(): number {
    return this.#isSealed ? 0 : Math.max(0, this.#nowMs() - this.#sealedAtMs);
  }

  async look(): Promise<void> {
    // A look that hangs must not hide what it does not see.
    if (!this.#isLooking) await this.#look();
    this.#tell();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    this.#isSealed = false;
    try {
      const atMs = this.#nowMs();
      const position = await this.#options.store.head();
      this.#heads.push({ position, atMs });
      this.#isSealed = await this.#readTo(position);
    } catch (error) {
      this.#options.logger.warn(errorFields(error), 'this process could not look whether the log is sealed');
    } finally {
      this.#isLooking = false;
    }
  }

  /** Goes on from the last event that is sealed, to the first one that is not. */
  async #readTo(head: Position): Promise<boolean> {
    const { store, known } = this.#options;
    let sealedTo = this.#sealedTo ?? (await lastStretch(this.#options)).after;
    // A pass of this process has sealed all events up to there.
    if (known.seenTo !== undefined && comparePositions(known.seenTo, sealedTo) > 0) sealedTo = known.seenTo;
    const throughs = new Map<string, Position | undefined>();
    for await (const events of readUpTo(store, sealedTo, head))
      for (const event of events) {
        if (!(await this.#isSealedEvent(event, throughs))) return this.#learn(sealedTo, false);
        sealedTo = event.position;
      }
    return this.#learn(head, true);
  }

  #learn(sealedTo: Position, isSealed: boolean): boolean {
    this.#sealedTo = sealedTo;
    for (
      let [first] = this.#heads;
      first && comparePositions(first.position, sealedTo) <= 0;
      [first] = this.#heads
    ) {
      this.#sealedAtMs = first.atMs;
      this.#heads.shift();
    }
    return isSealed;
  }

  async #isSealedEvent(event: StoredEvent, throughs: Map<string, Position | undefined>): Promise<boolean> {
    const tenantId = sealedTenantOf(event);
    if (tenantId === undefined) return true;
    if (!throughs.has(tenantId)) throughs.set(tenantId, await this.#sealedThrough(tenantId));
    const through = throughs.get(tenantId);
    return through === undefined || comparePositions(event.position, through) <= 0;
  }

  /** Undefined for a tenant whose keys are destroyed: nothing of it is signed any more. */
  async #sealedThrough(tenantId: string): Promise<Position | undefined> {
    const { store, keyRing } = this.#options;
    const key = await publicKeyOf(keyRing, tenantId);
    if (key === undefined) return undefined;
    const newest = { backwards: true, maxCount: 1 };
    for await (const event of store.readStoredStream(streams.audit(tenantId), newest)) {
      const checkpoint = checkpointOf(event);
      if (checkpoint && isSignedBy(checkpoint, key)) return parsePosition(checkpoint.through);
    }
    return startPosition;
  }

  #tell(): void {
    const unsealedMs = this.unsealedMs();
    const isLate = unsealedMs >= lateMs;
    if (isLate === this.#isLate) return;
    this.#isLate = isLate;
    const { logger } = this.#options;
    if (isLate)
      logger.error(
        { duration_ms: unsealedMs, position: this.#sealedTo },
        'the log is not sealed after this position',
      );
    else logger.error({ position: this.#sealedTo }, 'the log is sealed again, up to this position');
  }

  #nowMs(): number {
    return this.#options.clock.now().getTime();
  }
}
