import { threadShares, type Holder, type ThreadShares } from '@token-vault/batching';
import type { ServerResponse } from 'node:http';

/** Smaller bodies do not wait for a turn: parsing them takes less than a millisecond. */
const largeBytes = 16 * 1024;
/** The work that follows from a body (checks, copies, sealing, storing, projections) takes about a millisecond for this number of bytes. */
const bytesOfFollowingMs = 64 * 1024;
/**
 * Together with Postgres, and with all other turns of the thread, a body takes about a millisecond of the processors for this number of bytes:
 * 69 ms for 500 KB that replace the data of a token.
 */
const bytesOfMs = 8 * 1024;
/** Maximum bytes of one application's large bodies that are parsed at a time. A single body is always accepted, whatever its size. */
const bytesAtOnce = 1024 * 1024;
/** A body whose answer takes longer waits for other work, such as a run of a reactor, and is not counted any more. */
const workedAtMs = 1_000;

interface Waiting {
  readonly size: number;
  readonly start: () => void;
}

interface Application {
  bytes: number;
  readonly waiting: Waiting[];
}

/**
 * Parsing a body of 1 MiB may take about 50 ms of the thread that serves all requests: eight at once would block the others for almost half
 * a second. So the large bodies of one tenant are parsed one after the other, within the tenant's share of the thread, which takes turns by application, and
 * those of one application wait for the answers of those before them. Bodies of different tenants do not wait for each other. The bytes that an
 * application may hold limit the number of waiting bodies (in-flight.ts).
 */
export class BodyTurns {
  readonly #applications = new Map<string, Application>();
  readonly #shares: Pick<ThreadShares, 'run'>;

  constructor(shares: Pick<ThreadShares, 'run'> = threadShares) {
    this.#shares = shares;
  }

  /** Runs `parse` when it is the application's turn. The body counts until its answer is done. */
  async take<Result>(
    { holder, size, response }: { holder: Holder; size: number; response: ServerResponse },
    parse: () => Result,
  ): Promise<Result> {
    if (size < largeBytes) return parse();
    const key = `${holder.tenantId} ${holder.applicationId}`;
    const application = this.#applications.get(key) ?? { bytes: 0, waiting: [] };
    this.#applications.set(key, application);
    await new Promise<void>((resolve) => {
      application.waiting.push({ size, start: resolve });
      this.#startNext(key, application);
    });
    const leave = () => {
      clearTimeout(timer);
      response.off('close', leave);
      application.bytes -= size;
      this.#startNext(key, application);
    };
    const timer = setTimeout(leave, response.destroyed ? 0 : workedAtMs).unref();
    response.once('close', leave);
    const following = { ms: size / bytesOfFollowingMs, besideOthersMs: size / bytesOfMs };
    return this.#shares.run(holder, parse, following);
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
