import { setTimeout as pause } from 'node:timers/promises';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import type { DeadLetter, DeliveryOptions, Invocation, InvocationHandler } from './port.ts';

interface Waiting {
  readonly invocation: Invocation;
  readonly settle: (isAcknowledged: boolean) => void;
}

const maxRetryFactor = 100;

/**
 * Runs handlers: a limited number at once, tenants in turn (a tenant with a thousand invocations delays another tenant's invocation by one
 * turn). Failed invocations run again; those that fail too often become dead letters. An invocation that is delivered again while it runs
 * is not run twice.
 */
export class Deliveries {
  readonly #handler: InvocationHandler;
  readonly #options: DeliveryOptions;
  /** By tenant; the first in the map is next. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #known = new Map<string, Promise<boolean>>();
  /** Stops new attempts, and tells handlers to stop. */
  readonly #stopping = new AbortController();
  readonly #givingUp = new AbortController();
  #running = 0;

  constructor(handler: InvocationHandler, options: DeliveryOptions) {
    this.#handler = handler;
    this.#options = options;
  }

  /** Resolves to whether the invocation is acknowledged: false when the feed ended before. Never rejects. */
  deliver(invocation: Invocation): Promise<boolean> {
    const key = `${invocation.tenantId} ${invocation.invocationId}`;
    const known = this.#known.get(key);
    if (known) return known;
    const delivery = this.#enqueue(invocation).finally(() => this.#known.delete(key));
    this.#known.set(key, delivery);
    return delivery;
  }

  /** Gives an invocation up. Resolves to whether that is recorded: false when the feed ended before. */
  async giveUp(letter: DeadLetter): Promise<boolean> {
    for (let failures = 0; !this.#stopping.signal.aborted; failures++) {
      try {
        await this.#options.onDeadLetter(letter);
        return true;
      } catch (error) {
        this.#options.onTrouble?.(error);
        await this.#pause(failures);
      }
    }
    return false;
  }

  /**
   * Starts no more handlers and waits for the running ones, at most `timeoutMs`. Then handlers are told to stop and are not awaited any
   * more.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#stopping.abort();
    for (const { settle } of [...this.#waiting.values()].flat()) settle(false);
    this.#waiting.clear();
    const timer = new AbortController();
    const ended = Promise.all(this.#known.values());
    await Promise.race([ended, pause(timeoutMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
    timer.abort();
    this.#givingUp.abort();
  }

  #enqueue(invocation: Invocation): Promise<boolean> {
    if (this.#stopping.signal.aborted) return Promise.resolve(false);
    return new Promise((settle) => {
      const queue = this.#waiting.get(invocation.tenantId);
      if (queue) queue.push({ invocation, settle });
      else this.#waiting.set(invocation.tenantId, [{ invocation, settle }]);
      this.#pump();
    });
  }

  #pump(): void {
    while (this.#running < (this.#options.concurrency ?? 16)) {
      const next = this.#next();
      if (!next) return;
      this.#running++;
      void this.#run(next.invocation)
        .then(next.settle)
        .finally(() => {
          this.#running--;
          this.#pump();
        });
    }
  }

  #next(): Waiting | undefined {
    const [first] = this.#waiting;
    if (!first) return undefined;
    const [tenantId, queue] = first;
    const next = queue.shift();
    // Moves the tenant to the end of the line.
    this.#waiting.delete(tenantId);
    if (queue.length > 0) this.#waiting.set(tenantId, queue);
    return next;
  }

  async #run(invocation: Invocation): Promise<boolean> {
    const { maxAttempts = 5, isTransient = isStoreUnavailable } = this.#options;
    for (let [attempts, failures] = [0, 0]; !this.#stopping.signal.aborted; attempts++) {
      try {
        await this.#handler(invocation, this.#givingUp.signal);
        return true;
      } catch (error) {
        if (!isTransient(error)) failures++;
        this.#options.onTrouble?.(error);
        if (failures >= maxAttempts) {
          return this.giveUp({ invocation, reason: 'failed', attempts: attempts + 1, error: nameOf(error) });
        }
        await this.#pause(attempts);
      }
    }
    return false;
  }

  /** Ends early when the feed ends. */
  async #pause(failures: number): Promise<void> {
    const delayMs = (this.#options.retryDelayMs ?? 200) * Math.min(2 ** failures, maxRetryFactor);
    await pause(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }
}

function isStoreUnavailable(error: unknown): boolean {
  return error instanceof EventStoreUnavailableError;
}

function nameOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return typeof code === 'string' ? code : typeof name === 'string' ? name : 'unknown';
}
