import type { Position, RecordedEvent } from '@token-vault/event-store';

/** A run that is due. Ids: what it works on is read, sealed, from the log. */
export interface Invocation {
  readonly tenantId: string;
  readonly invocationId: string;
  /** What made it due, from a feed that has just read it in the log; a broker carries ids and nothing else. */
  readonly event?: RecordedEvent;
}

/**
 * Runs an invocation to its end: to resolve is to acknowledge, so it resolves once the outcome is durable. The same invocation may
 * be delivered again (after a crash, a rebalance, a lost acknowledgement): the handler's claim in the log makes that harmless.
 * `signal` aborts when the feed gives up waiting for it; what it does not acknowledge then is delivered again, somewhere.
 */
export type InvocationHandler = (invocation: Invocation, signal: AbortSignal) => Promise<void>;

/** Brings invocations that are due to this process: at least once each, as many at a time as it takes, tenants in turn. */
export interface InvocationFeed {
  /**
   * Delivers until `signal` aborts or the feed is closed; then takes nothing new, lets what runs end for `drainTimeoutMs`,
   * and resolves. An unreachable store or broker is waited for.
   * @throws what makes it senseless to go on: UnknownEventError, PositionBeyondHeadError. Called once.
   */
  start(handler: InvocationHandler, signal: AbortSignal): Promise<void>;
  /** Ends `start`, if it runs, in the same way, and resolves after it. */
  close(): Promise<void>;
}

/** Brings invocations from the log to where feeds take them from. */
export interface InvocationRelay {
  /** Relays until `signal` aborts. An unreachable store or broker is waited for. @throws as `InvocationFeed.start`. */
  run(signal: AbortSignal): Promise<void>;
}

/** What an event makes due; undefined for every other event. Pure. */
export type ToInvocation = (event: RecordedEvent) => Invocation | undefined;

/** Where a follower of the log keeps how far it has come. */
export interface CheckpointStore {
  /** `startPosition` when nothing was saved. */
  load(): Promise<Position>;
  /** Durable when it resolves. */
  save(position: Position): Promise<void>;
}

/** An invocation that is given up: its message could not be read, or its handler has failed again and again. */
export interface DeadLetter {
  /** Missing when the message could not be read. */
  readonly invocation: Invocation | undefined;
  readonly reason: 'malformed' | 'failed';
  readonly attempts: number;
  /** Code or name of the last error, never its message. */
  readonly error: string;
}

export interface DeliveryOptions {
  /** Most handlers at once; 16 by default. */
  readonly concurrency?: number;
  /** Failures that are not transient before an invocation is given up; 5 by default. */
  readonly maxAttempts?: number;
  /** Pause after the first failure, doubled each time up to 100 times as much; 200 by default. */
  readonly retryDelayMs?: number;
  /** Errors that pass: tried again without end. Unavailability of the event store by default. */
  readonly isTransient?: (error: unknown) => boolean;
  /** Records that an invocation was given up; it is acknowledged when this resolves, and this is repeated until it does. */
  readonly onDeadLetter: (letter: DeadLetter) => Promise<void>;
  /** How long handlers may go on after the end of the feed; 30 000 by default. */
  readonly drainTimeoutMs?: number;
  /** Told of what the feed recovers from by itself, for the log. */
  readonly onTrouble?: (error: unknown) => void;
}
