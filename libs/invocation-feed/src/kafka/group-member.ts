import { setTimeout as pause } from 'node:timers/promises';
import type { Consumer, EachBatchPayload, KafkaMessage } from 'kafkajs';
import { aborted } from '../aborted.ts';
import type { Deliveries } from '../deliveries.ts';
import { createClosableClient } from './connection.ts';
import type { DeadLetters, MalformedLetter } from './dead-letters.ts';
import type { KafkaInvocationFeedOptions } from './options.ts';
import { parseInvocation } from './message.ts';
import { Partition } from './partition.ts';

const maxBytesPerPartition = 64 * 1024;
const maxWaitMs = 500;
/** How long a member that leaves waits until it has joined: only a member that has joined can tell the group that it leaves. */
const joinMs = 3_000;

/**
 * One membership of the consumer group. The handlers of a batch run in the background: so the consumer's own loop can fetch, send
 * heartbeats and rebalance at once, however long handlers take. An offset is committed when all messages before it are done.
 */
export class GroupMember {
  readonly #options: KafkaInvocationFeedOptions;
  readonly #deliveries: Deliveries;
  readonly #letters: DeadLetters;
  readonly #consumer: Consumer;
  readonly #close: () => void;
  /** Partitions that the group has assigned to this member, after the first fetch from them. */
  readonly #partitions = new Map<number, Partition>();
  readonly #paused = new Set<number>();
  /**
   * Partitions whose first batch since the last rebalance has not arrived. Nothing is committed there: another member may have continued
   * meanwhile, and a commit would set the group back. The batch will contain every message that is not acknowledged.
   */
  readonly #unsettled = new Set<number>();
  #assigned: ReadonlySet<number> = new Set();
  #takesMore = true;
  #hasLeft = false;
  #joining: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #committing: Promise<void> | undefined;
  readonly #crashed = Promise.withResolvers<never>();

  constructor(options: KafkaInvocationFeedOptions, deliveries: Deliveries, letters: DeadLetters) {
    this.#options = options;
    this.#deliveries = deliveries;
    this.#letters = letters;
    const sessionTimeout = options.sessionTimeoutMs ?? 10_000;
    const { client, close } = createClosableClient(options.connection);
    this.#close = close;
    this.#consumer = client.consumer({
      groupId: options.groupId,
      sessionTimeout,
      heartbeatInterval: options.heartbeatIntervalMs ?? sessionTimeout / 10,
      maxBytesPerPartition,
      maxWaitTimeInMs: Math.min(maxWaitMs, sessionTimeout / 10),
      allowAutoTopicCreation: false,
      retry: { restartOnFailure: async () => !this.#hasLeft },
    });
    this.#crashed.promise.catch(() => undefined);
  }

  /** Resolves when the signal aborts. @throws errors that kafkajs does not recover from. */
  async run(signal: AbortSignal): Promise<void> {
    this.#joining = this.#join(signal);
    await Promise.race([this.#joining.then(() => this.#crashed.promise), aborted(signal)]);
  }

  stopTaking(): void {
    this.#takesMore = false;
    for (const partition of this.#assigned) this.#pause(partition);
  }

  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#committing;
    await this.#commit();
    this.#takesMore = false;
    this.#hasLeft = true;
    await Promise.race([this.#joining.catch(() => undefined), pause(joinMs, undefined, { ref: false })]);
    await this.#consumer.disconnect().catch((error: unknown) => this.#options.onTrouble?.(error));
    this.#close();
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
    // The signal aborted meanwhile: this connection was made after `leave`.
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
    this.#unsettled.clear();
    for (const partition of partitions) this.#unsettled.add(partition);
    if (!this.#takesMore) this.stopTaking();
  }

  /** Messages that are not taken here are fetched again when the partition is resumed. */
  async #take(payload: EachBatchPayload): Promise<void> {
    const { batch } = payload;
    // The batch was fetched before a rebalance took the partition away. If it began the partition here, all messages before it would count as
    // done when the partition is assigned again.
    if (!this.#assigned.has(batch.partition)) return;
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
    const isSettled = !this.#unsettled.delete(id);
    if (known && (isSettled || known.resumeAt(first))) return known;
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
    return this.#deliveries.giveUp(letter);
  }

  #tick(): void {
    for (const [id, partition] of this.#partitions) {
      if (this.#takesMore && partition.unfinished < this.#maxUnfinished / 2) this.#resume(id);
    }
    this.#committing ??= this.#commit().finally(() => (this.#committing = undefined));
  }

  /**
   * A failed commit is repeated with the next one. Otherwise the messages are delivered again to the next member that has the partition.
   */
  async #commit(): Promise<void> {
    const { topic } = this.#options;
    const due = [...this.#partitions].flatMap(([id, partition]) => {
      const isOurs = this.#assigned.has(id) && !this.#unsettled.has(id);
      const next = isOurs ? partition.uncommitted : undefined;
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

  /** Between a crash and its restart kafkajs has no consumer; the next consumer begins with no partition paused. */
  #whileRunning(change: () => void): void {
    try {
      change();
    } catch (error) {
      this.#options.onTrouble?.(error);
    }
  }
}
