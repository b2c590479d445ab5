import { authenticationReadModels, UnavailableError, type ReadModelName } from '@token-vault/contracts';
import { comparePositions, type EventStore, type Position } from '@token-vault/event-store';
import type { CheckpointsRead } from './checkpoints.ts';
import type { KnownRevocations, ReadRights } from './known-revocations.ts';
import { NewestEvent } from './newest-event.ts';
import type { ProjectionProgress } from './projection-progress.ts';

/** Rights that were read. */
export interface FoundRights<Found> extends ReadRights {
  readonly found: Found;
}

/** The state of the read models as this process knows it: at most `leaseMs` old whenever it is used (ADR 21). */
export interface ReadModelWatch {
  /**
   * Resolves when none of the named read models has stopped: has failed, is paused, does not exist, or has not applied an event that this
   * process has known for more than 10 s (rules.md §1). @throws UnavailableError
   */
  requireMoving(names: readonly ReadModelName[]): Promise<void>;
  /**
   * Returns what `read` found about rights, valid at that moment. If a revocation of these rights was confirmed meanwhile, `read` is called
   * again, however long this process was stopped. Revocations of other rights do not count. What was found earlier may be found again
   * while the given revocations leave it.
   * @throws UnavailableError when the read models of authentication have stopped, or these rights were changed during each of several reads
   */
  current<Found>(
    read: (revocations: KnownRevocations) => FoundRights<Found> | Promise<FoundRights<Found>>,
  ): Promise<Found>;
  /** Notes an event of the vault that this process has stored. */
  noteEvent(position: Position): void;
  /** A read model may have moved: the state is read soon. So a process that is asked nothing knows of the events that read models show. */
  readSoon(): void;
  /** The known state is out of date. */
  forget(): void;
}

/** How long a read state may be used. The confirmation of a revocation waits for this time. */
export const leaseMs = 250;
/** Earlier than the lease ends, so that under load no request waits for the read. */
const renewAfterMs = 100;
/** rules.md §1. */
const behindMs = 10_000;
/** So many reads of rights that were changed during each of them are a refusal. */
const readsOfRights = 5;
/** On a slow machine many reads may take longer than the lease: they are repeated so often, and for so long. */
const leasedAfterReads = 5;
const leasedWithinMs = 5_000;

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
  #soon: NodeJS.Timeout | undefined;

  constructor({ progress, nowMs = () => performance.now() }: ReadModelWatchOptions) {
    this.#progress = progress;
    this.#nowMs = nowMs;
  }

  async requireMoving(names: readonly ReadModelName[]): Promise<void> {
    this.#requireMoving(await this.#fresh(), names);
  }

  async current<Found>(
    read: (revocations: KnownRevocations) => FoundRights<Found> | Promise<FoundRights<Found>>,
  ): Promise<Found> {
    for (let attempt = 1; attempt <= readsOfRights; attempt += 1) {
      const known = await this.#fresh();
      this.#requireMoving(known, authenticationReadModels);
      const rights = await read(known.revocations);
      if ((await this.#fresh()).revocations.leave(rights)) return rights.found;
    }
    throw new UnavailableError('The rights of the caller change too often to be read; try again.');
  }

  noteEvent(position: Position): void {
    this.#newest.note(position, this.#nowMs());
  }

  readSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#renew().catch(() => undefined);
    }, leaseMs).unref();
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
    const untilMs = this.#nowMs() + leasedWithinMs;
    const isOver = (attempt: number) => attempt > leasedAfterReads && this.#nowMs() >= untilMs;
    for (let attempt = 1, misses = 0; misses < 2 && !isOver(attempt); attempt += 1) {
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
export function noteAppends(store: EventStore, watch: Pick<ReadModelWatch, 'noteEvent'>): EventStore {
  return {
    ...store,
    async append(...append) {
      const result = await store.append(...append);
      watch.noteEvent(result.position);
      return result;
    },
  };
}
