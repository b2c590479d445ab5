import type { NewEvent, VaultEvent, VaultEventType } from '@token-vault/contracts';

/**
 * A place in the whole log. Opaque: ordered, not dense, a decimal string outside this library
 * (up to 64 bits, so never a JavaScript number). Compare with `comparePositions`.
 */
export type Position = string & { readonly __position: unique symbol };

/** The position before the first event. */
export const startPosition = '0' as Position;

/** Revision of a stream that has no events; the first event of a stream has revision 0. */
export const noRevision = -1;

/**
 * What the writer believes about the stream: `no-stream` (it must not exist), `exists`, `any`,
 * or the revision of its last event (`noRevision` says the same as `no-stream`).
 */
export type ExpectedRevision = 'any' | 'no-stream' | 'exists' | number;

/** Where an event is stored. */
export interface EventPlace {
  readonly stream: string;
  readonly revision: number;
  readonly position: Position;
}

/**
 * An event of the log. `version` is that of the current schema: stored data has passed the upcasters. A check of `type` narrows
 * `data` to that event's.
 */
export type RecordedEvent<Type extends VaultEventType = VaultEventType> = Recorded<
  Extract<VaultEvent, { type: Type }>
>;
export type Recorded<Event> = Event extends unknown ? Event & EventPlace : never;

export interface AppendResult {
  /** Of the last event of this append. */
  readonly position: Position;
  readonly revision: number;
}

export interface AppendOptions {
  /**
   * Ids of the data keys that these events' values were sealed under for the first time. Where such keys are durable only with the
   * append that follows them, the store makes sure that they are stored: a crash in between may have taken them.
   */
  readonly keys?: readonly string[];
}

export interface ReadStreamOptions {
  /** First revision to read, inclusive: by default 0, or the last one when reading backwards. */
  readonly from?: number;
  /** Newest first. */
  readonly backwards?: boolean;
  /** Most events to give: no more than these are read from the store. All by default. */
  readonly maxCount?: number;
}

export interface ReadAllOptions {
  /** Stop after the event at this position (inclusive); the head at the time of the call by default. */
  readonly until?: Position;
  readonly signal?: AbortSignal;
}

export interface SubscribeOptions<Event = VaultEvent> {
  /** Most events of one batch; 1000 by default. A batch is bounded by its size in bytes too. */
  readonly maxBatch?: number;
  /** Whether the subscriber had better see a live event with others than at once. An adapter may hold such for a moment, until `hurry`. */
  readonly canWait?: (event: Recorded<Event>) => boolean;
}

/**
 * A stretch of the log. No batch has no news: it holds events, or moves `position`, or says for the first time
 * that the subscriber has caught up.
 */
export interface EventBatch<Event = VaultEvent> {
  /** In log order. Empty when nothing of interest lies up to `position`: a checkpoint may move there all the same. */
  readonly events: readonly Recorded<Event>[];
  /** The subscriber has been shown everything up to and including this position. */
  readonly position: Position;
  /** `position` was the head a moment ago. */
  readonly isCaughtUp: boolean;
}

/**
 * `Event` is the union of the events that the log holds: the vault's, or those of the contract suite.
 *
 * The vault's only truth: streams of events in one total order. Every adapter passes `contract-suite.ts`.
 *
 * Events of one append are stored together or not at all, are neighbours in the log, and are durable when
 * `append` resolves. A subscriber that has seen position P will never be shown an event at or below P later.
 */
export interface EventStore<Event extends NewEvent<string, unknown> = VaultEvent> {
  /**
   * `stream` is 1 to 512 characters, without control characters, and does not begin with `$`.
   * Repeating an append with the same event ids and an explicit expectation (`no-stream` or a revision) answers
   * as the first did and stores nothing; when only some of the events are there, it is a conflict.
   * @throws RevisionConflictError when `expected` does not hold; names the actual revision.
   * @throws InvalidEventError when an event breaks its schema or its id is no UUID; nothing was stored.
   * @throws UnknownEventError when an event has a type or version that this binary does not write.
   * @throws AppendTooLargeError above `maxAppendBytes`.
   * @throws TypeError when the stream's name or the expectation is malformed, or there are no events.
   * @throws EventStoreUnavailableError when the outcome is refused or unknown; repeat with the same ids.
   * @throws KeysNotStoredError when `keys` are not all there: nothing was stored; seal again.
   */
  append(
    stream: string,
    events: readonly Event[],
    expected: ExpectedRevision,
    options?: AppendOptions,
  ): Promise<AppendResult>;

  /**
   * The events of a stream by revision. A stream that does not exist has none.
   * @throws TypeError unless `from` and `maxCount` are integers, from 0 and from 1.
   */
  readStream(stream: string, options?: ReadStreamOptions): AsyncIterable<Recorded<Event>>;

  /** The log after `after` (exclusive), in order, in bounded memory. Ends at the head of the moment of the call. */
  readAll(after: Position, options?: ReadAllOptions): AsyncIterable<Recorded<Event>>;

  /**
   * The log after `after` (exclusive), then live, in batches of everything available up to a bound, until `signal`
   * aborts (ends within 1 s, without an error). A subscriber that starts at the head gets one empty batch that says so.
   * Back-pressure: a slow reader holds the subscription, never memory.
   * Batches and events may be shared between the subscribers of a process: treat them as frozen.
   * @throws EventStoreUnavailableError when the connection is lost: resubscribe from the position you have committed.
   * @throws PositionBeyondHeadError when `after` lies beyond the head: that checkpoint belongs to another log.
   * @throws UnknownEventError at an event that this binary does not know.
   */
  subscribe(
    after: Position,
    signal: AbortSignal,
    options?: SubscribeOptions<Event>,
  ): AsyncIterable<EventBatch<Event>>;

  /** Position of the last durable event; `startPosition` for an empty log. */
  head(): Promise<Position>;

  /** Somebody waits for what comes of the events up to `position`: no subscriber, in any process, is to go on holding these. */
  hurry(position: Position): Promise<void>;

  /** Ends subscriptions and connections. Appends under way end first; later calls are refused as unavailable. */
  close(): Promise<void>;
}

/** -1, 0 or 1, for sorting. */
export function comparePositions(left: Position, right: Position): number {
  if (left === right) return 0;
  if (left.length !== right.length) return left.length < right.length ? -1 : 1;
  return left < right ? -1 : 1;
}

/** Reads a position from outside. @throws TypeError unless it is a canonical unsigned 64-bit decimal. */
export function parsePosition(text: string): Position {
  if (!/^(0|[1-9]\d{0,19})$/.test(text) || BigInt(text) > 0xffff_ffff_ffff_ffffn) {
    throw new TypeError('a position is an unsigned 64-bit decimal');
  }
  return text as Position;
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

/** Most bytes (UTF-8 of data and metadata as JSON) of one append. */
export const maxAppendBytes = 16 * 1024 * 1024;

/** The events of one append are more than `maxAppendBytes`. Nothing was stored. */
export class AppendTooLargeError extends Error {
  readonly code = 'append_too_large';
  /** `limit` is given by stores that take less. */
  constructor(bytes: number, limit: number = maxAppendBytes) {
    super(`an append of ${bytes} bytes is above the limit of ${limit}`);
  }
}

/** A reader claims to have seen more than the log holds: its checkpoint belongs to another log, or the log was restored. */
export class PositionBeyondHeadError extends Error {
  readonly code = 'position_beyond_head';
  constructor(after: Position, head: Position) {
    super(`position ${after} lies beyond the head of the log, ${head}`);
  }
}

/** The store cannot be reached or did not answer in time: an append may or may not have happened. */
export class EventStoreUnavailableError extends Error {
  readonly code = 'event_store_unavailable';
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The store does not know the account, or does not let it do this: another attempt helps only after an operator has changed that. */
export class EventStoreAccessError extends EventStoreUnavailableError {}

/**
 * Keys that the events were sealed under were lost in a crash, or destroyed, before the append: nobody could ever read them.
 * Nothing was stored. Callers may repeat the command, not the append.
 */
export class KeysNotStoredError extends EventStoreUnavailableError {
  constructor() {
    super('data keys of the append are not stored');
  }
}
