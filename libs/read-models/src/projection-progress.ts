import { openListener } from '@token-vault/postgres';
import type pg from 'pg';
import { comparePositions, isPosition, startPosition, type Position } from '@token-vault/event-store';
import { readCheckpoints, type Checkpoint, type CheckpointsRead } from './checkpoints.ts';
import type { KnownRevocations } from './known-revocations.ts';
import { isPassedBy, marksOf, type Marks } from './marks.ts';
import { errorFields, type Logger } from '@token-vault/observability';

export interface ProjectionProgress {
  /**
   * Resolves to true when the named projections (by default all awaited ones) have passed `position`. Resolves to false when `timeoutMs` is
   * over, or one of them has failed and cannot reach it (rules.md: the answer then says that it is pending).
   */
  waitFor(position: Position, timeoutMs: number, names?: readonly string[]): Promise<boolean>;
  /** `waitFor` for a reader: asks projections that delay their commits to commit up to `position` at once. */
  reach(position: Position, timeoutMs: number, names?: readonly string[]): Promise<boolean>;
  /**
   * Resolves to true when the read models are known to be at least as new as this process has seen them; to false after `timeoutMs`. Read
   * models do not flush their own commits, so a crash of Postgres sets them back until the events are replayed. Until then a read would
   * miss confirmed writes.
   */
  recovered(timeoutMs: number): Promise<boolean>;
  /** The number of lost connections. Rows read after a loss may be older than rows read before it. */
  readonly losses: number;
  /** Reads the checkpoints of all projections from the database; undefined when they cannot be read. */
  read(): Promise<CheckpointsRead | undefined>;
  close(): Promise<void>;
}

export interface ProjectionProgressOptions {
  readonly connectionString: string;
  readonly logger: Logger;
  /** The interval between reads of the checkpoints while a call waits, in case a notification is lost. */
  readonly pollMs?: number;
  /** Projections that are awaited only when they are named. */
  readonly unawaited?: readonly string[];
  /** A projection has failed, was paused, or is live again. */
  readonly onStatusChange?: () => void;
  /** A notification says that a projection has moved. Every role of the database may notify, so it is only a reason to read. */
  readonly onToldMove?: () => void;
  /** The head of the log, for `recovered`. */
  readonly head?: () => Promise<Position>;
}

interface Waiter {
  readonly position: Position;
  readonly names: readonly string[] | undefined;
  readonly resolve: (passed: boolean) => void;
}

const later = (one: Position, other: Position) => (comparePositions(one, other) < 0 ? other : one);

/** A notification to the projectors counts for 100 ms there. For this time it serves later readers, who may be thousands. */
const hurryMs = 20;

/**
 * Listens for the positions of the projections (`projection_progress`, `<name>:<position>`) on one connection for the process. What counts
 * are the stored checkpoints: every role of the database may notify, so a notification only says when to read them.
 */
class Progress implements ProjectionProgress {
  readonly #options: ProjectionProgressOptions;
  #checkpoints = new Map<string, Checkpoint>();
  /** Told by notifications since the last read was sent. A read that is sent later sees what is true of them. */
  #told = new Map<string, Position>();
  /** The last position that was told or read. */
  #furthest = startPosition;
  #revocations: KnownRevocations | undefined;
  /** A list that is replaced when waiters leave: a Set would keep removed waiters alive (ADR 13). */
  #waiters: Waiter[] = [];
  #client: pg.Client | undefined;
  #connecting: Promise<pg.Client | undefined> | undefined;
  #refreshing: Promise<CheckpointsRead | undefined> | undefined;
  #poll: NodeJS.Timeout | undefined;
  #isClosed = false;
  #losses = 0;
  #hurried = { position: startPosition, atMs: -Infinity };
  #isRead = false;
  /** The position that the read models must reach again after a lost connection, if the log has it. */
  #floor: Position | undefined;

  constructor(options: ProjectionProgressOptions) {
    this.#options = options;
  }

  waitFor(position: Position, timeoutMs: number, names?: readonly string[]): Promise<boolean> {
    if (this.#isClosed) return Promise.resolve(false);
    const early = this.#verdict({ position, names });
    if (early !== undefined && this.#client) return Promise.resolve(early);
    return new Promise((resolve) => {
      const waiter: Waiter = {
        position,
        names,
        resolve: (passed) => {
          clearTimeout(timer);
          resolve(passed);
        },
      };
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((each) => each !== waiter);
        waiter.resolve(false);
      }, timeoutMs);
      this.#waiters.push(waiter);
      this.#startPolling();
      this.#readIfTold();
    });
  }

  reach(position: Position, timeoutMs: number, names?: readonly string[]): Promise<boolean> {
    const isThere = this.#verdict({ position, names }) === true;
    if (!isThere) this.#hurry(position);
    return this.waitFor(position, timeoutMs, names);
  }

  /** Notifies the projectors (`projectors/src/runner/hurries.ts`). If the notification fails, they still commit, but a moment later. */
  #hurry(position: Position): void {
    const nowMs = performance.now();
    const { position: last, atMs } = this.#hurried;
    if (!this.#client || (nowMs - atMs < hurryMs && comparePositions(position, last) <= 0)) return;
    this.#hurried = { position, atMs: nowMs };
    this.#client.query(`select pg_notify('projection_hurry', $1)`, [position], () => undefined);
  }

  async recovered(timeoutMs: number): Promise<boolean> {
    const floor = this.#floor;
    if (floor === undefined) return true;
    const head = await this.#options.head?.();
    const isBeyondLog = head !== undefined && comparePositions(head, floor) < 0;
    const isRecovered = await this.waitFor(isBeyondLog ? head : floor, timeoutMs);
    if (isRecovered && this.#floor === floor) this.#floor = undefined;
    return isRecovered;
  }

  get losses(): number {
    return this.#losses;
  }

  /** A lost connection may mean that Postgres crashed: notified positions may not have been stored. */
  #drop(client: pg.Client): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#losses += 1;
    this.#isRead = false;
    if (this.#furthest !== startPosition) this.#floor = this.#furthest;
    this.#checkpoints.clear();
    this.#told.clear();
  }

  async start(): Promise<void> {
    await this.#refresh();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#poll);
    for (const waiter of this.#waiters.splice(0)) waiter.resolve(false);
    await this.#refreshing;
    await this.#client?.end().catch(() => undefined);
  }

  /** Undefined while the projections are not known. */
  #marksOf(
    names: readonly string[] | undefined,
    checkpoints: ReadonlyMap<string, Checkpoint>,
  ): Marks | undefined {
    if (!this.#isRead || checkpoints.size === 0) return undefined;
    return marksOf(checkpoints, names, (name) => !this.#options.unawaited?.includes(name));
  }

  /** Undefined while the waiter has to wait. */
  #verdict(waiter: Pick<Waiter, 'position' | 'names'>): boolean | undefined {
    return this.#verdictBy(this.#checkpoints)(waiter);
  }

  /** Gives what ends each wait, if these checkpoints are true. They are compared once for all of thousands that name the same projections. */
  #verdictBy(
    checkpoints: ReadonlyMap<string, Checkpoint>,
  ): (waiter: Pick<Waiter, 'position' | 'names'>) => boolean | undefined {
    const known = new Map<string | undefined, Marks | undefined>();
    return ({ position, names }) => {
      const key = names?.join();
      if (!known.has(key)) known.set(key, this.#marksOf(names, checkpoints));
      const marks = known.get(key);
      return marks && isPassedBy(marks, position);
    };
  }

  #settle(): void {
    const verdictOf = this.#verdictBy(this.#checkpoints);
    this.#waiters = this.#waiters.filter((waiter) => {
      const verdict = verdictOf(waiter);
      if (verdict !== undefined) waiter.resolve(verdict);
      return verdict === undefined;
    });
  }

  #onProgress(payload: string): void {
    const separator = payload.lastIndexOf(':');
    const name = payload.slice(0, separator);
    const known = this.#told.get(name) ?? this.#checkpoints.get(name)?.position;
    const position = payload.slice(separator + 1);
    if (known === undefined || !isPosition(position) || comparePositions(position, known) <= 0) return;
    this.#told.set(name, position);
    this.#furthest = later(this.#furthest, position);
    this.#options.onToldMove?.();
    this.#readIfTold();
  }

  /**
   * Reads the checkpoints when a wait ends if the notifications are true, or when a projection that was not live moves. A false notification
   * costs one read.
   */
  #readIfTold(): void {
    if (this.#refreshing || this.#told.size === 0) return;
    const checkpoints = new Map(this.#checkpoints);
    let isLiveAgain = false;
    for (const [name, position] of this.#told) {
      isLiveAgain ||= checkpoints.get(name)?.status !== 'live';
      checkpoints.set(name, { position, status: 'live' });
    }
    const verdictOf = this.#verdictBy(checkpoints);
    if (isLiveAgain || this.#waiters.some((waiter) => verdictOf(waiter) !== undefined)) void this.#refresh();
  }

  #startPolling(): void {
    if (this.#poll) return;
    if (!this.#client) void this.#refresh();
    this.#poll = setInterval(() => {
      if (this.#waiters.length > 0) {
        void this.#refresh();
        return;
      }
      clearInterval(this.#poll);
      this.#poll = undefined;
    }, this.#options.pollMs ?? 200);
    this.#poll.unref();
  }

  read(): Promise<CheckpointsRead | undefined> {
    return this.#refresh();
  }

  /** One read at a time: reads of a database that does not answer must not accumulate. */
  #refresh(): Promise<CheckpointsRead | undefined> {
    this.#refreshing ??= this.#readCheckpoints().finally(() => {
      this.#refreshing = undefined;
      // Notifications may have come after this read was sent.
      this.#readIfTold();
    });
    return this.#refreshing;
  }

  async #readCheckpoints(): Promise<CheckpointsRead | undefined> {
    try {
      const client = await this.#connect();
      if (!client || this.#isClosed) return undefined;
      this.#told.clear();
      const read = await readCheckpoints(client, this.#revocations);
      this.#checkpoints = read.checkpoints;
      for (const { position } of read.checkpoints.values()) this.#furthest = later(this.#furthest, position);
      this.#revocations = read.revocations;
      this.#isRead = true;
      this.#settle();
      return { ...read, checkpoints: new Map(read.checkpoints) };
    } catch (error) {
      this.#options.logger.warn(errorFields(error), 'projection progress is not readable');
      // The next attempt gets a new connection, whatever the error was.
      const client = this.#client;
      if (!client) return undefined;
      this.#drop(client);
      client.end().catch(() => undefined);
      return undefined;
    }
  }

  #connect(): Promise<pg.Client | undefined> {
    if (this.#client || this.#isClosed) return Promise.resolve(this.#client);
    this.#connecting ??= this.#listen().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #listen(): Promise<pg.Client> {
    const settings = {
      connectionString: this.#options.connectionString,
      application_name: 'vault-progress',
      query_timeout: 5_000,
      // Readers notify while checkpoints are read. Without it, pg warns when a third statement waits.
      pipeline: true,
    };
    const channels = {
      projection_progress: (payload: string) => this.#onProgress(payload),
      projection_status: () => this.#options.onStatusChange?.(),
    };
    const client = await openListener(settings, channels, (lost) => this.#drop(lost));
    if (this.#isClosed) await client.end();
    else this.#client = client;
    return client;
  }
}

export async function createProjectionProgress(
  options: ProjectionProgressOptions,
): Promise<ProjectionProgress> {
  const progress = new Progress(options);
  await progress.start();
  return progress;
}
