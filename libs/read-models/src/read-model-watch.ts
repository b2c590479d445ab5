import { authenticationReadModels, UnavailableError, type ReadModelName } from '@token-vault/contracts';
import { comparePositions, type EventStore, type Position } from '@token-vault/event-store';
import type { CheckpointsRead } from './checkpoints.ts';
import { NewestEvent } from './newest-event.ts';
import type { ProjectionProgress } from './projection-progress.ts';

/** The state of the read models as this process knows it: at most `leaseMs` old whenever it is used (ADR 21). */
export interface ReadModelWatch {
  /**
   * Resolves when none of the named read models has stopped: has failed, is paused, does not exist, or has not applied an event that this
   * process has known for more than 10 s (rules.md §1). @throws UnavailableError
   */
  requireMoving(names: readonly ReadModelName[]): Promise<void>;
  /**
   * Returns the result of `read` about rights, valid at that moment. If a revocation was confirmed meanwhile, `read` is called again,
   * however long this process was stopped. A result for one generation is valid as long as that generation lasts; `read` must not use a
   * result of another generation.
   * @throws UnavailableError when the read models of authentication have stopped
   */
  current<Found>(read: (accessGeneration: string) => Found | Promise<Found>): Promise<Found>;
  /** Notes an event of the vault that this process has stored. */
  noteAppend(position: Position): void;
  /** The known state is out of date. */
  forget(): void;
}

/** How long a read state may be used. The confirmation of a revocation waits for this time. */
export const leaseMs = 250;
/** Earlier than the lease ends, so that under load no request waits for the read. */
const renewAfterMs = 100;
/** rules.md §1. */
const behindMs = 10_000;
const attempts = 5;

export interface ReadModelWatchOptions {
  readonly progress: Pick<ProjectionProgress, 'read'>;
  /** Monotonic, in milliseconds. */
  readonly nowMs?: () => number;
}

class Watch implements ReadModelWatch {
  readonly #progress: Pick<ProjectionProgress, 'read'>;
  readonly #nowMs: () => number;
  readonly #newest = new NewestEvent(behindMs);
  #known: CheckpointsRead | undefined;
  /** A read that was sent before this time is out of date. */
  #notBeforeMs = -Infinity;
  #renewing: Promise<boolean> | undefined;
  #readings = 0;

  constructor({ progress, nowMs = () => performance.now() }: ReadModelWatchOptions) {
    this.#progress = progress;
    this.#nowMs = nowMs;
  }

  async requireMoving(names: readonly ReadModelName[]): Promise<void> {
    this.#requireMoving(await this.#fresh(), names);
  }

  async current<Found>(read: (accessGeneration: string) => Found | Promise<Found>): Promise<Found> {
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const known = await this.#fresh();
      this.#requireMoving(known, authenticationReadModels);
      const generation = known.accessGeneration;
      // Revocations of other callers change the generation too. A result that is read again, for a generation that has no cached results,
      // is no older than its own read: within the lease it is used before any revocation that it does not include is confirmed.
      const isOwn = attempt > 1;
      const sinceMs = this.#nowMs();
      const found = await read(isOwn ? `${generation} ${(this.#readings += 1)}` : generation);
      if (isOwn && this.#nowMs() - sinceMs < leaseMs) return found;
      if ((await this.#fresh()).accessGeneration === generation) return found;
    }
    throw new UnavailableError('Rights change too often for the caller to be identified; try again.');
  }

  noteAppend(position: Position): void {
    this.#newest.note(position, this.#nowMs());
  }

  forget(): void {
    this.#known = undefined;
    this.#notBeforeMs = this.#nowMs();
  }

  #requireMoving({ checkpoints }: CheckpointsRead, names: readonly ReadModelName[]): void {
    const due = this.#newest.due(this.#nowMs());
    for (const name of names) {
      const checkpoint = checkpoints.get(name);
      const isMoving = checkpoint !== undefined && !['failed', 'paused'].includes(checkpoint.status);
      if (!isMoving || (due !== undefined && comparePositions(checkpoint.position, due) < 0))
        throw new UnavailableError(`The read model ${name} stands still. Nothing was done; try again later.`);
    }
  }

  /** Returns no promise while the last read may be used: every request calls this several times. */
  #fresh(): CheckpointsRead | Promise<CheckpointsRead> {
    return this.#leased() ?? this.#readUntilLeased();
  }

  /** The age counts from before the read was sent: an answer may have waited in a stopped process. */
  #leased(): CheckpointsRead | undefined {
    const known = this.#known;
    const ageMs = known ? this.#nowMs() - known.beganMs : Infinity;
    if (ageMs >= leaseMs) return undefined;
    if (ageMs >= renewAfterMs) this.#renew().catch(() => undefined);
    return known;
  }

  async #readUntilLeased(): Promise<CheckpointsRead> {
    for (let attempt = 1, misses = 0; attempt <= attempts && misses < 2; attempt += 1) {
      // The first miss may be caused by a lost connection.
      if (!(await this.#renew())) misses += 1;
      const known = this.#leased();
      if (known) return known;
    }
    throw new UnavailableError('The state of the read models is not known; try again.');
  }

  /** Resolves to whether the checkpoints could be read. */
  #renew(): Promise<boolean> {
    this.#renewing ??= this.#read().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #read(): Promise<boolean> {
    const read = await this.#progress.read();
    if (!read) return false;
    if (read.beganMs < this.#notBeforeMs) return true;
    this.#known = read;
    // An event that one read model has applied must be applied by the others too.
    for (const { position } of read.checkpoints.values()) this.#newest.note(position, this.#nowMs());
    return true;
  }
}

export const watchReadModels = (options: ReadModelWatchOptions): ReadModelWatch => new Watch(options);

/** The same event store; the watch is informed of each append. */
export function noteAppends(store: EventStore, watch: Pick<ReadModelWatch, 'noteAppend'>): EventStore {
  return {
    ...store,
    async append(...append) {
      const result = await store.append(...append);
      watch.noteAppend(result.position);
      return result;
    },
  };
}
