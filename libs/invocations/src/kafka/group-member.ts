import type { Consumer, EachBatchPayload, KafkaMessage } from 'kafkajs';
import { aborted } from '../aborted.ts';
import type { Deliveries } from '../deliveries.ts';
import { createClient } from './connection.ts';
import type { DeadLetters, MalformedLetter } from './dead-letters.ts';
import type { KafkaInvocationFeedOptions } from './options.ts';
import { parseInvocation } from './message.ts';
import { Partition } from './partition.ts';

const maxBytesPerPartition = 64 * 1024;
const maxWaitMs = 500;

/**
 * One membership of the consumer group. Batches are taken and left to run: the consumer's own loop stays free to fetch, to beat
 * and to rebalance within moments, however long handlers take. Offsets are committed as far as everything before them is done.
 */
export class GroupMember {
  readonly #options: KafkaInvocationFeedOptions;
  readonly #deliveries: Deliveries;
  readonly #letters: DeadLetters;
  readonly #consumer: Consumer;
  /** Those that the group has given to this member, once something was fetched from them. */
  readonly #partitions = new Map<number, Partition>();
  readonly #paused = new Set<number>();
  /** Those whose first batch since the last rebalance has not come. */
  readonly #unsettled = new Set<number>();
  #assigned: ReadonlySet<number> = new Set();
  #takesMore = true;
  #timer: NodeJS.Timeout | undefined;
  #committing: Promise<void> | undefined;
  readonly #crashed = Promise.withResolvers<never>();

  constructor(options: KafkaInvocationFeedOptions, deliveries: Deliveries, letters: DeadLetters) {
    this.#options = options;
    this.#deliveries = deliveries;
    this.#letters = letters;
    const sessionTimeout = options.sessionTimeoutMs ?? 30_000;
    this.#consumer = createClient(options.connection).consumer({
      groupId: options.groupId,
      sessionTimeout,
      heartbeatInterval: options.heartbeatIntervalMs ?? sessionTimeout / 10,
      maxBytesPerPartition,
      maxWaitTimeInMs: Math.min(maxWaitMs, sessionTimeout / 10),
      allowAutoTopicCreation: false,
      retry: { restartOnFailure: async () => true },
    });
    this.#crashed.promise.catch(() => undefined);
  }

  /** Resolves when the signal aborts. @throws what kafkajs does not recover from by itself. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#join(signal).then(() => this.#crashed.promise), aborted(signal)]);
  }

  takeNoMore(): void {
    this.#takesMore = false;
    for (const partition of this.#assigned) this.#pause(partition);
  }

  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#committing;
    await this.#commit();
    await this.#consumer.disconnect().catch((error: unknown) => this.#options.onTrouble?.(error));
  }

  async #join(signal: AbortSignal): Promise<void> {
    const { events } = this.#consumer;
    this.#consumer.on(events.REBALANCING, () => (this.#assigned = new Set()));
    this.#consumer.on(events.GROUP_JOIN, ({ payload }) => {
      this.#reassign(payload.memberAssignment[this.#options.topic] ?? []);
    });
    this.#consumer.on(events.CRASH, ({ payload }) => {
      this.#assigned = new Set();
      if (payload.restart) this.#options.onTrouble?.(payload.error);
      else this.#crashed.reject(payload.error);
    });
    await this.#consumer.connect();
    // Aborted meanwhile: this connection came after `leave`.
    if (signal.aborted) return this.#consumer.disconnect();
    await this.#consumer.subscribe({ topics: [this.#options.topic], fromBeginning: true });
    if (signal.aborted) return;
    this.#timer = setInterval(() => this.#tick(), this.#options.commitIntervalMs ?? 500);
    await this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 4,
      eachBatch: (payload) => this.#take(payload),
    });
  }

  #reassign(partitions: readonly number[]): void {
    this.#assigned = new Set(partitions);
    for (const partition of [...this.#partitions.keys(), ...this.#paused]) {
      if (this.#assigned.has(partition)) continue;
      this.#partitions.delete(partition);
      this.#resume(partition);
    }
    for (const partition of partitions) this.#unsettled.add(partition);
    if (!this.#takesMore) this.takeNoMore();
  }

  /** What is not taken here is fetched again, once the partition goes on. */
  async #take(payload: EachBatchPayload): Promise<void> {
    const { batch } = payload;
    const first = BigInt(batch.firstOffset() ?? batch.lastOffset());
    const partition = this.#partition(batch.partition, first);
    for (const message of batch.messages) {
      if (!this.#takesMore) return;
      if (partition.unfinished >= this.#maxUnfinished) return this.#pause(batch.partition);
      const done = partition.take(BigInt(message.offset));
      if (done) void this.#deliver(message).then((isAcknowledged) => isAcknowledged && done());
      payload.resolveOffset(message.offset);
    }
    await payload.heartbeat();
  }

  #partition(id: number, first: bigint): Partition {
    const known = this.#partitions.get(id);
    const isOvertaken = this.#unsettled.delete(id) && known?.isOvertaken(first);
    if (known && !isOvertaken) return known;
    const partition = new Partition(first);
    this.#partitions.set(id, partition);
    return partition;
  }

  #deliver(message: KafkaMessage): Promise<boolean> {
    const invocation = parseInvocation(message.value);
    if (invocation) return this.#deliveries.deliver(invocation);
    const letter: MalformedLetter = {
      invocation: undefined,
      reason: 'malformed',
      attempts: 0,
      error: 'malformed_message',
      message: { key: message.key, value: message.value },
    };
    return this.#deliveries.bury(letter);
  }

  #tick(): void {
    for (const [id, partition] of this.#partitions) {
      if (this.#takesMore && partition.unfinished < this.#maxUnfinished / 2) this.#resume(id);
    }
    this.#committing ??= this.#commit().finally(() => (this.#committing = undefined));
  }

  /** What fails here is tried again with the next, or comes again to whoever has the partition then. */
  async #commit(): Promise<void> {
    const { topic } = this.#options;
    const due = [...this.#partitions].flatMap(([id, partition]) => {
      const next = this.#assigned.has(id) ? partition.uncommitted : undefined;
      return next === undefined ? [] : [{ id, partition, next }];
    });
    if (due.length === 0) return;
    try {
      await this.#consumer.commitOffsets(
        due.map(({ id, next }) => ({ topic, partition: id, offset: String(next) })),
      );
      for (const { partition, next } of due) partition.confirm(next);
    } catch (error) {
      this.#options.onTrouble?.(error);
    }
  }

  get #maxUnfinished(): number {
    return this.#options.maxUnfinishedPerPartition ?? 200;
  }

  #pause(partition: number): void {
    this.#paused.add(partition);
    this.#whileRunning(() => this.#consumer.pause([{ topic: this.#options.topic, partitions: [partition] }]));
  }

  #resume(partition: number): void {
    if (!this.#paused.delete(partition)) return;
    this.#whileRunning(() =>
      this.#consumer.resume([{ topic: this.#options.topic, partitions: [partition] }]),
    );
  }

  /** Between a crash and its restart kafkajs has no consumer to tell; the next one begins with nothing paused. */
  #whileRunning(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      this.#options.onTrouble?.(error);
    }
  }
}
