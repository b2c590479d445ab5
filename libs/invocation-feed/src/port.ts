import type { Position, RecordedEvent } from '@token-vault/event-store';

/** A run that is due. Contains ids: the sealed data is read from the log. */
export interface Invocation {
  readonly tenantId: string;
  readonly invocationId: string;
  /** The event that made the run due, set by a feed that has just read it in the log; a broker carries only ids. */
  readonly event?: RecordedEvent;
}

/**
 * Runs an invocation to its end. Resolving acknowledges it, so the handler resolves once the outcome is durable. The same invocation may be
 * delivered again (after a crash, a rebalance, a lost acknowledgement): the handler's claim in the log makes that harmless. `signal` aborts
 * when the feed stops waiting for the handler. An invocation that is not acknowledged by then is delivered again, to this or another
 * process.
 */
export type InvocationHandler = (invocation: Invocation, signal: AbortSignal) => Promise<void>;

/** Delivers due invocations to this process: at least once each, in a limited number at once, tenants in turn. */
export interface InvocationFeed {
  /**
   * Delivers until `signal` aborts or the feed is closed. Then it starts no more handlers, waits for the running ones up to
   * `drainTimeoutMs`, and resolves. While the store or the broker is unreachable, it waits.
   * @throws errors that cannot be repaired by waiting: UnknownEventError, PositionBeyondHeadError. Called once.
   */
  start(handler: InvocationHandler, signal: AbortSignal): Promise<void>;
  /** Ends `start` in the same way, if it runs, and resolves after it. */
  close(): Promise<void>;
}

/** Copies invocations from the log to the place from which feeds take them. */
export interface InvocationRelay {
  /** Relays until `signal` aborts. While the store or the broker is unreachable, it waits. @throws as `InvocationFeed.start`. */
  run(signal: AbortSignal): Promise<void>;
}

/** The invocation that an event makes due; undefined for every other event. Pure. */
export type ToInvocation = (event: RecordedEvent) => Invocation | undefined;

/** Stores the position up to which a reader has followed the log. */
export interface CheckpointStore {
  /** `startPosition` when no position was saved. */
  load(): Promise<Position>;
  /** Durable when it resolves. */
  save(position: Position): Promise<void>;
}

/** An invocation that was given up: its message could not be read, or its handler failed too often. */
export interface DeadLetter {
  /** Missing when the message could not be read. */
  readonly invocation: Invocation | undefined;
  readonly reason: 'malformed' | 'failed';
  readonly attempts: number;
  /** Code or name of the last error, never its message. */
  readonly error: string;
}

export interface DeliveryOptions {
  /** Maximum number of concurrent handlers; 16 by default. */
  readonly concurrency?: number;
  /** Failures that are not transient before an invocation is given up; 5 by default. */
  readonly maxAttempts?: number;
  /** Pause after the first failure, doubled each time up to 100 times as much; 200 by default. */
  readonly retryDelayMs?: number;
  /** Whether an error is temporary: such errors are repeated without a limit. By default the unavailability of the event store. */
  readonly isTransient?: (error: unknown) => boolean;
  /** Records that an invocation was given up. The invocation is acknowledged when this resolves; until then the call is repeated. */
  readonly onDeadLetter: (letter: DeadLetter) => Promise<void>;
  /** How long handlers may run after the end of the feed; 30 000 by default. */
  readonly drainTimeoutMs?: number;
  /** Called for each error that the feed recovers from by itself, for the log. */
  readonly onTrouble?: (error: unknown) => void;
}
