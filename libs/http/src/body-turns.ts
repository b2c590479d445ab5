import {
  followingOf,
  largeBytes,
  queued,
  threadShares,
  type Holder,
  type ThreadShares,
} from '@token-vault/batching';

/** Maximum bytes of one application's large bodies that are worked at together. A single body is always accepted, whatever its size. */
const bytesAtOnce = 1024 * 1024;
/** Work that takes longer waits for other work, such as a run of a reactor, and is not counted any more. */
const workedAtMs = 1_000;

interface Waiting {
  readonly size: number;
  readonly start: () => void;
}

/** A value that waits for its turn. */
export interface LargeValue {
  readonly holder: Holder;
  readonly size: number;
  /** Resolves when the work for it has ended. */
  readonly over: Promise<void>;
  /** The value does not wait any more. */
  readonly signal?: AbortSignal | undefined;
}

interface Application {
  bytes: number;
  readonly waiting: Waiting[];
}

/**
 * Parsing a body of 1 MiB may take about 50 ms of the thread that serves all requests: eight at once would block the others for almost half
 * a second. So the large bodies of one tenant are parsed one after the other, within the tenant's share of the thread, which takes turns by application, and
 * those of one application wait for the answers of those before them. Bodies of different tenants do not wait for each other. The bytes that an
 * application may hold limit the number of waiting bodies (in-flight.ts). The stored data of a token that a small patch changes is as much work as a body, so it takes
 * turns with them.
 */
export class BodyTurns {
  readonly #applications = new Map<string, Application>();
  readonly #shares: Pick<ThreadShares, 'run'>;

  constructor(shares: Pick<ThreadShares, 'run'> = threadShares) {
    this.#shares = shares;
  }

  /** Runs `parse` when it is the application's turn. The bytes count until the work is over. @throws the reason of `signal` */
  async take<Result>({ holder, size, over, signal }: LargeValue, parse: () => Result): Promise<Result> {
    if (size < largeBytes) return parse();
    const key = `${holder.tenantId} ${holder.applicationId}`;
    const application = this.#applications.get(key) ?? { bytes: 0, waiting: [] };
    this.#applications.set(key, application);
    await queued(
      {
        push: (start) => {
          application.waiting.push({ size, start });
          this.#startNext(key, application);
        },
        remove: (start) => this.#remove(key, application, start),
      },
      signal,
    );
    let isCounted = true;
    const leave = () => {
      if (!isCounted) return;
      isCounted = false;
      clearTimeout(timer);
      application.bytes -= size;
      this.#startNext(key, application);
    };
    const timer = setTimeout(leave, workedAtMs).unref();
    void over.then(leave);
    return this.#shares.run(holder, parse, followingOf(size), signal);
  }

  #remove(key: string, application: Application, start: () => void): boolean {
    const index = application.waiting.findIndex((each) => each.start === start);
    if (index < 0) return false;
    application.waiting.splice(index, 1);
    // A smaller one behind it may begin.
    this.#startNext(key, application);
    return true;
  }

  #startNext(key: string, application: Application): void {
    for (let next = application.waiting[0]; next; next = application.waiting[0]) {
      if (application.bytes > 0 && application.bytes + next.size > bytesAtOnce) return;
      application.waiting.shift();
      application.bytes += next.size;
      next.start();
    }
    if (application.bytes === 0) this.#applications.delete(key);
  }
}

/** One instance for the process, because its bodies share one thread. */
export const bodyTurns = new BodyTurns();
