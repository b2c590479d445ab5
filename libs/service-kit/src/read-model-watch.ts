import { authenticationReadModels, UnavailableError, type ReadModelName } from '@token-vault/contracts';
import { comparePositions, type EventStore, type Position } from '@token-vault/event-store';
import type { CheckpointsRead } from './checkpoints.ts';
import { NewestEvent } from './newest-event.ts';
import type { ProjectionProgress } from './projection-progress.ts';

/** What this process knows of the read models: at most `leaseMs` old whenever it is used (ADR 21). */
export interface ReadModelWatch {
  /**
   * Resolves when none of those named stands still: has failed, is paused, is not there, or has not applied what this process has
   * known of for more than 10 s (rules.md §1). @throws UnavailableError
   */
  requireMoving(names: readonly ReadModelName[]): Promise<void>;
  /**
   * Gives what `read` found out about who may do what, as it is at that moment: it is read again when a revocation was confirmed
   * meanwhile, however long this process was stopped. What was found for a generation is true as long as that lasts; `read` must not
   * use what it found for another.
   * @throws UnavailableError when what callers are made of stands still
   */
  current<Found>(read: (accessGeneration: string) => Found | Promise<Found>): Promise<Found>;
  /** An event of the vault that this process has stored. */
  noteAppend(position: Position): void;
  /** What is known is out of date. */
  forget(): void;
}

/** How long what was read may be used. A revocation that is being confirmed waits for so long. */
export const leaseMs = 250;
/** Earlier, so that under load nobody waits for it. */
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
  /** What was asked for earlier says nothing any more. */
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
      // Revocations of others change the generation as well. What is read anew, for no generation that anything is remembered for, is
      // no older than its own reading: within the lease it is used before a revocation that it does not know is confirmed.
      const isOwn = attempt > 1;
      const sinceMs = this.#nowMs();
      const found = await read(isOwn ? `${generation} ${(this.#readings += 1)}` : generation);
      if (isOwn && this.#nowMs() - sinceMs < leaseMs) return found;
      if ((await this.#fresh()).accessGeneration === generation) return found;
    }
    throw new UnavailableError('Rights change too often to make out the caller; try again.');
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

  /** No promise as long as the last reading may be used: every request asks several times. */
  #fresh(): CheckpointsRead | Promise<CheckpointsRead> {
    return this.#leased() ?? this.#readUntilLeased();
  }

  /** The age counts from before the read was sent: an answer that lay in a stopped process is as old as it is. */
  #leased(): CheckpointsRead | undefined {
    const known = this.#known;
    const ageMs = known ? this.#nowMs() - known.beganMs : Infinity;
    if (ageMs >= leaseMs) return undefined;
    if (ageMs >= renewAfterMs) this.#renew().catch(() => undefined);
    return known;
  }

  async #readUntilLeased(): Promise<CheckpointsRead> {
    for (let attempt = 1, misses = 0; attempt <= attempts && misses < 2; attempt += 1) {
      // The first may be due to a lost connection.
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
    // What one read model shows, the others must show too.
    for (const { position } of read.checkpoints.values()) this.#newest.note(position, this.#nowMs());
    return true;
  }
}

export const watchReadModels = (options: ReadModelWatchOptions): ReadModelWatch => new Watch(options);

/** The same event store; the watch hears of each append. */
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
