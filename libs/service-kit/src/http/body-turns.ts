import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Smaller bodies take no turns: they cost the thread less than a millisecond. */
const largeBytes = 16 * 1024;
/** Most bytes of one tenant's large bodies that are parsed at a time. One body is always let in, whatever its size. */
const bytesAtOnce = 1024 * 1024;
/** A body whose answer takes longer waits for something else, such as a run of a reactor, and counts no more. */
const workedAtMs = 1_000;
/** After a body that held the thread for so long, the tenant rests. */
const freeMs = 2;
/** A tenant's bodies get a quarter of the thread that parses them. */
const restFactor = 3;

interface Waiting {
  readonly size: number;
  readonly start: () => void;
}

interface Tenant {
  bytes: number;
  isResting: boolean;
  readonly waiting: Waiting[];
}

/**
 * A body of 1 MiB may take the thread that serves everybody for some 50 ms: eight of them at once stop the others for half a second.
 * So the large bodies of one tenant are worked at one after the other, and the tenant rests after what was long. Those of
 * different tenants do not wait for each other. How many may wait is bounded by the bytes that a tenant may hold (in-flight.ts).
 */
export class BodyTurns {
  readonly #tenants = new Map<string, Tenant>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Runs `parse` when it is the tenant's turn. The body counts until its answer is done. */
  async take<Result>(
    { tenantId, size, response }: { tenantId: string; size: number; response: ServerResponse },
    parse: () => Result,
  ): Promise<Result> {
    if (size < largeBytes) return parse();
    const tenant = this.#tenants.get(tenantId) ?? { bytes: 0, isResting: false, waiting: [] };
    this.#tenants.set(tenantId, tenant);
    await new Promise<void>((resolve) => {
      tenant.waiting.push({ size, start: resolve });
      this.#startNext(tenantId, tenant);
    });
    const leave = () => {
      clearTimeout(timer);
      response.off('close', leave);
      tenant.bytes -= size;
      this.#startNext(tenantId, tenant);
    };
    const timer = setTimeout(leave, response.destroyed ? 0 : workedAtMs).unref();
    response.once('close', leave);
    const begun = this.#nowMs();
    try {
      return parse();
    } finally {
      this.#rest(tenantId, tenant, this.#nowMs() - begun);
      // Validation follows and takes long as well: other tenants go first.
      await nextTurn();
    }
  }

  /** One at a time, so that the next one sees how long this one takes. */
  #startNext(tenantId: string, tenant: Tenant): void {
    const [next] = tenant.waiting;
    if (!next) {
      if (tenant.bytes === 0 && !tenant.isResting) this.#tenants.delete(tenantId);
      return;
    }
    if (tenant.isResting || (tenant.bytes > 0 && tenant.bytes + next.size > bytesAtOnce)) return;
    tenant.waiting.shift();
    tenant.bytes += next.size;
    tenant.isResting = true;
    next.start();
  }

  #rest(tenantId: string, tenant: Tenant, heldMs: number): void {
    const wake = () => {
      tenant.isResting = false;
      this.#startNext(tenantId, tenant);
    };
    if (heldMs <= freeMs) wake();
    else setTimeout(wake, heldMs * restFactor).unref();
  }
}

/** One for the process: its thread is. */
export const bodyTurns = new BodyTurns();
