import { randomUUID } from 'node:crypto';
import type { EventRegistry } from '@token-vault/contracts';
import { onTestFinished } from 'vitest';
import type { EventStoreSubject } from './subject.ts';
import type { Position, SubscribeOptions } from '../port.ts';
import {
  asSuiteStore,
  testRegistry,
  type SuiteBatch,
  type SuiteEvent,
  type SuiteStore,
} from './test-events.ts';

/** The subject of a suite, and the repeated steps of its tests. */
export class Fixture {
  #subject: EventStoreSubject | undefined;
  #store: SuiteStore | undefined;

  start(subject: EventStoreSubject): void {
    this.#subject = subject;
    this.#store = asSuiteStore(subject.open(testRegistry));
  }

  async end(): Promise<void> {
    await this.#store?.close();
    await this.#subject?.drop();
  }

  get subject(): EventStoreSubject {
    if (!this.#subject) throw new Error('the subject was not created');
    return this.#subject;
  }

  /** The store that most tests use; do not close it. */
  get store(): SuiteStore {
    if (!this.#store) throw new Error('the subject was not created');
    return this.#store;
  }

  /** Another store on the same log, closed when the test ends. */
  open(registry: EventRegistry = testRegistry): SuiteStore {
    const store = asSuiteStore(this.subject.open(registry));
    onTestFinished(() => store.close());
    return store;
  }
}

export function newStream(): string {
  return `contract-${randomUUID()}`;
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

export function texts(events: readonly SuiteEvent[]): unknown[] {
  return events.map((event) => event.data.text);
}

/** A subscription that fills an array until it is stopped, or the test ends. */
export interface RunningSubscription {
  readonly events: SuiteEvent[];
  readonly batches: SuiteBatch[];
  /** Resolves when the subscription has ended, rejects with its error. */
  readonly ended: Promise<void>;
  stop(): void;
}

export function runSubscription(
  store: SuiteStore,
  after: Position,
  options: SubscribeOptions & { readonly onBatch?: (batch: SuiteBatch) => void | Promise<void> } = {},
): RunningSubscription {
  const abort = new AbortController();
  const events: SuiteEvent[] = [];
  const batches: SuiteBatch[] = [];
  const { onBatch, ...subscribeOptions } = options;
  async function run(): Promise<void> {
    for await (const batch of store.subscribe(after, abort.signal, subscribeOptions)) {
      batches.push(batch);
      events.push(...batch.events);
      await onBatch?.(batch);
    }
  }
  const ended = run();
  ended.catch(() => undefined);
  onTestFinished(() => abort.abort());
  return { events, batches, ended, stop: () => abort.abort() };
}
