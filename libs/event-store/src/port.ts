import type { NewEvent, VaultEvent, VaultEventType } from '@token-vault/contracts';
import type { GroupMember } from './append-group.ts';

/**
 * A place in the whole log. Opaque: ordered, not dense, a decimal string outside this library (up to 64 bits, so never a JavaScript
 * number). Compare with `comparePositions`.
 */
export type Position = string & { readonly __position: unique symbol };

/** The position before the first event. */
export const startPosition = '0' as Position;

/** Revision of a stream that has no events; the first event of a stream has revision 0. */
export const noRevision = -1;

/**
 * The state of the stream that the writer expects: `no-stream` (it must not exist), `exists`, `any`, or the revision of its last event
 * (`noRevision` means the same as `no-stream`).
 */
export type ExpectedRevision = 'any' | 'no-stream' | 'exists' | number;

/** The place of a stored event. */
export interface EventPlace {
  readonly stream: string;
  readonly revision: number;
  readonly position: Position;
}

/**
 * An event of the log. `version` is that of the current schema: stored data has passed the upcasters. A check of `type` narrows `data` to
 * the data of that event.
 */
export type RecordedEvent<Type extends VaultEventType = VaultEventType> = Recorded<
  Extract<VaultEvent, { type: Type }>
>;
export type Recorded<Event> = Event extends unknown ? Event & EventPlace : never;

/** An event exactly as it was written, also when this release does not know its type: upcasters would change the text. */
export interface StoredEvent extends EventPlace {
  readonly id: string;
  readonly type: string;
  /** The schema version of the event when it was written. */
  readonly version: number;
  /** JSON text. */
  readonly data: string;
  /** JSON text. */
  readonly metadata: string;
}

export interface AppendResult {
  /**
   * Position of the last event of this append. A store that combines appends that expect `any` may give the position of another append of
   * the same batch.
   */
  readonly position: Position;
  readonly revision: number;
}

export interface AppendOptions {
  /**
   * Ids of the data keys under which values of these events were sealed for the first time. In a store where such keys become durable only
   * with the next append, the append checks that the keys are stored: a crash in between may have removed them.
   */
  readonly keys?: readonly string[];
  /** The append is stored together with those of the other members, by a store that can (`AppendGroup`). */
  readonly member?: GroupMember | undefined;
}

export interface ReadStreamOptions {
  /** First revision to read, inclusive: by default 0, or the last one when reading backwards. */
  readonly from?: number;
  /** Newest first. */
  readonly backwards?: boolean;
  /** Maximum number of events; no more are read from the store. All by default. */
  readonly maxCount?: number;
}

export interface ReadAllOptions {
  /** Stop after the event at this position (inclusive); the head at the time of the call by default. */
  readonly until?: Position;
  readonly signal?: AbortSignal;
}

export interface SubscribeOptions {
  /** Maximum number of events of a batch; 1000 by default. A batch is also limited in bytes. */
  readonly maxBatch?: number;
}

/**
 * A stretch of the log. Every batch holds events, or moves `position`, or reports for the first time that the subscriber has caught
 * up.
 */
export interface EventBatch<Event = VaultEvent> {
  /** In log order. Empty when no event up to `position` passes the filter: a checkpoint may still move to `position`. */
  readonly events: readonly Recorded<Event>[];
  /** The subscriber has received all events up to and including this position. */
  readonly position: Position;
  /** `position` was the head of the log when the batch was made. */
  readonly isCaughtUp: boolean;
}

/**
 * The only source of truth of the vault: streams of events in one total order. Every adapter passes `contract-suite.ts`.
 *
 * `Event` is the union of the events that the log holds: the vault's, or those of the contract suite.
 *
 * The events of one append are stored together or not at all, are neighbours in the log, and are durable when `append` resolves. A
 * subscriber that has received position P never gets an event at or below P later.
 */
export interface EventStore<Event extends NewEvent<string, unknown> = VaultEvent> {
  /**
   * `stream` is 1 to 512 characters, without control characters, and does not begin with `$`.
   * A repeated append with the same event ids and an explicit expectation (`no-stream` or a revision) gets the same answer as the first and
   * stores nothing; when only some of the events are stored, it is a conflict.
   * @throws RevisionConflictError when `expected` does not hold; names the actual revision.
   * @throws InvalidEventError when an event does not match its schema or its id is not a UUID; nothing was stored.
   * @throws UnknownEventError when an event has a type or version that this release does not write.
   * @throws AppendTooLargeError above `maxAppendBytes`.
   * @throws TypeError when the stream's name or the expectation is malformed, or there are no events.
   * @throws AppendUnansweredError when the append was sent and its outcome is unknown: it may have been stored. Repeat it with the same
   * ids.
   * @throws EventStoreUnavailableError otherwise, when the store cannot be used: nothing was stored.
   * @throws KeysNotStoredError when not all `keys` are stored: nothing was stored; seal again.
   */
  append(
    stream: string,
    events: readonly Event[],
    expected: ExpectedRevision,
    options?: AppendOptions,
  ): Promise<AppendResult>;

  /**
   * The events of a stream by revision; none for a stream that does not exist.
   * @throws TypeError unless `from` and `maxCount` are integers, from 0 and from 1.
   */
  readStream(stream: string, options?: ReadStreamOptions): AsyncIterable<Recorded<Event>>;

  /**
   * Runs a decision that depends on several streams. Reading them may take seconds, so `decide` runs again when one of those that it has read with
   * `readStream` has newer events when it is done, unless it took less than 50 ms. From the third time on 100 ms are short enough: so a
   * stream that is written to all the time does not hold it up. It must not append what it decides, since it may run several times.
   * @param decide calls `beforeRights` before it reads the rights of callers, which are not in these streams. It runs again when the decision
   * is then not done within 100 ms, or within 200, 400 and 800 ms from the second, third and fourth time on.
   * @throws EventStoreUnavailableError when streams change faster than they are read; and as `decide`
   */
  consistently<Result>(decide: (beforeRights: () => void) => Promise<Result>): Promise<Result>;

  /**
   * In a decision (`consistently`) that runs again: gives what `read` gave the time before, unless one of the streams that it has read then has newer
   * events. Otherwise it reads, once for all that ask at the same time; `before` is what it gave last. `key` names what is read, in this decision.
   */
  remembered<Value>(key: string, read: (before: Value | undefined) => Promise<Value>): Promise<Value>;

  /**
   * The log after `after` (exclusive), in order, in bounded memory. Ends at the head at the time of the call.
   * @throws EventMissingError where positions are dense and an event up to `until` is missing. The events before it were given.
   */
  readAll(after: Position, options?: ReadAllOptions): AsyncIterable<Recorded<Event>>;

  /**
   * As `readAll`, but the events as they were written, in non-empty batches of limited size. The audit log is made from these: the same
   * event gives the same texts at any time, on any adapter. A missing event is no error here: a verification names each, and reads on.
   */
  readStored(after: Position, options?: ReadAllOptions): AsyncIterable<readonly StoredEvent[]>;

  /** The whole log from its head at the time of the call, newest first, otherwise as `readStored`. */
  readStoredBackwards(): AsyncIterable<readonly StoredEvent[]>;

  /**
   * Events that a writer of the database stored at positions below 1 or beyond the head, as `readStored`. They are not part of the log: no other
   * reading gives them. Undefined where the store itself gives the positions.
   */
  readonly readStoredOutside?: () => AsyncIterable<readonly StoredEvent[]>;

  /** As `readStream`, but the events as they were written. */
  readStoredStream(stream: string, options?: ReadStreamOptions): AsyncIterable<StoredEvent>;

  /**
   * Positions are 1, 2, 3 …: a missing position means a missing event, and a position counts events. Where this is false, positions only
   * give the order.
   */
  readonly hasDensePositions: boolean;

  /**
   * The log after `after` (exclusive), then live, in batches of the available events up to a limit, until `signal` aborts (ends within 1 s,
   * without an error). A subscriber that starts at the head gets one empty batch with `isCaughtUp`.
   * Back-pressure: a slow reader pauses the subscription; events do not accumulate in memory.
   * Batches and events may be shared between the subscribers of a process: do not change them.
   * @throws EventStoreUnavailableError when the connection is lost: subscribe again from the position that you have committed.
   * @throws PositionBeyondHeadError when `after` lies beyond the head: that checkpoint belongs to another log.
   * @throws UnknownEventError at an event that this release does not know.
   * @throws EventMissingError as `readAll`.
   */
  subscribe(
    after: Position,
    signal: AbortSignal,
    options?: SubscribeOptions,
  ): AsyncIterable<EventBatch<Event>>;

  /**
   * Position of the last durable event; `startPosition` for an empty log.
   * @throws PositionBeyondHeadError when this store has seen an event beyond it: the log was set back.
   */
  head(): Promise<Position>;

  /**
   * The position that no subscriber of this log has passed. It lies beyond `head` when events of other applications on the same server follow:
   * a subscriber passes them, too.
   */
  end(): Promise<Position>;

  /** Ends subscriptions and connections. Appends under way finish first; later calls are refused as unavailable. */
  close(): Promise<void>;
}

/** -1, 0 or 1, for sorting. */
export function comparePositions(left: Position, right: Position): number {
  if (left === right) return 0;
  if (left.length !== right.length) return left.length < right.length ? -1 : 1;
  return left < right ? -1 : 1;
}

/** Whether a text is a canonical unsigned 64-bit decimal. */
export const isPosition = (text: string): text is Position =>
  /^(0|[1-9]\d{0,19})$/.test(text) && BigInt(text) <= 0xffff_ffff_ffff_ffffn;

/** @throws TypeError unless the text is a position */
export function parsePosition(text: string): Position {
  if (!isPosition(text)) throw new TypeError('a position is an unsigned 64-bit decimal');
  return text;
}

/** The expectation of an append did not hold. */
export class RevisionConflictError extends Error {
  readonly code = 'revision_conflict';
  readonly stream: string;
  readonly expected: ExpectedRevision;
  /** `noRevision` when the stream does not exist. */
  readonly actual: number;
  constructor(stream: string, expected: ExpectedRevision, actual: number) {
    super(`expected revision ${expected}, found ${actual === noRevision ? 'no stream' : actual}`);
    this.stream = stream;
    this.expected = expected;
    this.actual = actual;
  }
}

/** Maximum bytes (UTF-8 of data and metadata as JSON) of one append. */
export const maxAppendBytes = 16 * 1024 * 1024;

/** The events of one append exceed `maxAppendBytes`. Nothing was stored. */
export class AppendTooLargeError extends Error {
  readonly code = 'append_too_large';
  /** `limit` is given by stores with a lower limit. */
  constructor(bytes: number, limit: number = maxAppendBytes) {
    super(`an append of ${bytes} bytes is above the limit of ${limit}`);
  }
}

/** A reader's position lies beyond the head: its checkpoint belongs to another log, or the log was restored. */
export class PositionBeyondHeadError extends Error {
  readonly code = 'position_beyond_head';
  constructor(after: Position, head: Position) {
    super(`position ${after} lies beyond the head of the log, ${head}`);
  }
}

/** Positions are dense, and the log has no event at this one: the event, or the head of the log, was altered. */
export class EventMissingError extends Error {
  readonly code = 'event_missing';
  constructor(position: string) {
    super(`the log has no event at position ${position}`);
  }
}

/** The store cannot be reached, or did not answer in time. */
export class EventStoreUnavailableError extends Error {
  readonly code = 'event_store_unavailable';
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The disk of the store is full. Nothing was stored, and a later attempt may succeed. */
export class InsufficientStorageError extends EventStoreUnavailableError {
  constructor() {
    super('the disk of the store is full');
  }
}

/** An append was sent without getting an answer: it may have been stored. */
export class AppendUnansweredError extends EventStoreUnavailableError {}

/**
 * The store does not know the account, or the account lacks a right. Another attempt can succeed only after an operator has changed this.
 */
export class EventStoreAccessError extends EventStoreUnavailableError {}

/**
 * Data keys of the events were lost in a crash, or destroyed, before the append, so the sealed values could never be opened. Nothing was
 * stored. Callers may repeat the command, but not the append.
 */
export class KeysNotStoredError extends EventStoreUnavailableError {
  constructor() {
    super('data keys of the append are not stored');
  }
}
