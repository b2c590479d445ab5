import { liveSchema } from '@token-vault/contracts';
import {
  PositionBeyondHeadError,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import type { Projection } from '../projection.ts';
import { BatchWriter } from './batch-writer.ts';
import {
  changeStatus,
  isOutdated,
  markFailed,
  readOrCreateCheckpoint,
  type Checkpoint,
} from './checkpoint.ts';
import { findCulprit } from './culprit.ts';
import { failureCode, isFenced, isPassing } from './failures.ts';
import type { CheckpointAdvancer } from './checkpoint-advancer.ts';
import { becomeLeader, pause, tryToLead } from './leadership.ts';
import { delayableEventsOf } from './delayable-events.ts';
import { gather } from './gather.ts';
import type { Hurries } from './hurries.ts';
import { openSession, type Session } from './session.ts';

/** The part of a pino logger that the runner uses. Fields never hold event data. */
export interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** @param sinceMs when the projection received the events, in milliseconds since 1970 */
export type ShownObserver = (projection: string, events: readonly RecordedEvent[], sinceMs: number) => void;

/** Called when this process begins to lead a projection, and when it no longer leads it. */
export type LeadingObserver = (projection: string, isLeading: boolean) => void;

export interface RunContext {
  readonly store: EventStore;
  readonly connectionString: string;
  readonly logger: Logger;
  readonly maxBatch: number;
  readonly maxHoldMs: number;
  readonly hurries: Hurries;
  readonly checkpointAdvancer: CheckpointAdvancer;
  readonly onShown?: ShownObserver | undefined;
  readonly onLeading?: LeadingObserver | undefined;
  /** Builds the successor of an outdated read model and swaps it in. Resolves when done or when `signal` aborted. */
  readonly replace: (projection: Projection, signal: AbortSignal) => Promise<void>;
}

const restMs = 1_000;
const maxBackoffMs = 5_000;

/** Runs one projection until `signal` aborts: leads or stands by, and starts again after any error. */
export async function runProjection(
  projection: Projection,
  context: RunContext,
  signal: AbortSignal,
): Promise<void> {
  const run = new ProjectionRun(projection, context, signal);
  let failures = 0;
  while (!signal.aborted) {
    try {
      await run.turn();
      failures = 0;
      await pause(restMs, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (isFenced(error)) continue;
      const retryMs = Math.min(maxBackoffMs, 100 * 2 ** failures++);
      const code = failureCode(error);
      context.logger.warn({ projection: projection.name, code, retryMs }, 'projection interrupted');
      await pause(retryMs, signal);
    }
  }
}

class ProjectionRun {
  readonly #projection: Projection;
  readonly #context: RunContext;
  readonly #signal: AbortSignal;
  /**
   * A process tries a failed projection once, because a new release may contain the fix. After that an operator must
   * resume it.
   */
  #mayRetryFailed = true;

  constructor(projection: Projection, context: RunContext, signal: AbortSignal) {
    this.#projection = projection;
    this.#context = context;
    this.#signal = signal;
  }

  /** One turn of leadership. Returns when there is nothing to do for now. Throws passing errors. */
  async turn(): Promise<void> {
    const { name } = this.#projection;
    const { connectionString } = this.#context;
    const session = await openSession({
      connectionString,
      name: `projector ${name}`,
      schema: liveSchema(name),
    });
    try {
      if (await isOutdated(session, this.#projection)) await this.#replace(session);
      else if (await becomeLeader(session, name, this.#signal)) {
        await this.#lead(session, await readOrCreateCheckpoint(session, this.#projection));
      }
    } finally {
      await session.close();
    }
  }

  async #lead(session: Session, checkpoint: Checkpoint): Promise<void> {
    const { name, version } = this.#projection;
    // An older release must not change the read model of a newer one. A newer release replaces it in its next turn.
    if (checkpoint.version !== version) return;
    if (checkpoint.status === 'paused') return;
    if (checkpoint.status === 'failed' && !this.#mayRetryFailed) return;
    if (checkpoint.status !== 'live' && !(await changeStatus(session, name, checkpoint, 'live'))) return;
    const { onLeading } = this.#context;
    onLeading?.(name, true);
    try {
      await this.#follow(session, checkpoint);
    } catch (error) {
      if (this.#signal.aborted || isPassing(error)) throw error;
      await this.#stop(session, error);
    } finally {
      onLeading?.(name, false);
    }
  }

  /** A process of the older release may lead meanwhile. Without such a process the live read model does not advance. */
  async #replace(session: Session): Promise<void> {
    const { name } = this.#projection;
    if (await tryToLead(session, name)) {
      await changeStatus(session, name, await readOrCreateCheckpoint(session, this.#projection), 'outdated');
    }
    await this.#context.replace(this.#projection, this.#signal);
  }

  async #follow(session: Session, { generation, position }: Checkpoint): Promise<void> {
    const { onShown } = this.#context;
    const { on } = this.#projection;
    const concerns = ({ type }: RecordedEvent): boolean => Object.hasOwn(on, type);
    const writer = this.#writer(session, generation, position);
    const canWait = delayableEventsOf(this.#projection);
    // When the session is lost, another process leads. The checkpoint advancer has its own connection, so without
    // this signal it would still move the checkpoint here.
    const leading = new AbortController();
    session.client.once('end', () => leading.abort());
    const signal = AbortSignal.any([this.#signal, leading.signal]);
    for await (const batch of gather({ ...this.#context, canWait }, position, signal)) {
      const sinceMs = onShown ? Date.now() : 0;
      if (batch.position !== writer.position) await writer.write(batch.events, batch.position);
      // When live, waiting makes the next batch bigger. In a replay, the next batch is prepared while this one is
      // written.
      if (!batch.isCaughtUp) continue;
      await writer.settle();
      onShown?.(this.#projection.name, batch.events.filter(concerns), sinceMs);
    }
    await writer.settle();
  }

  async #stop(session: Session, failure: unknown): Promise<void> {
    const { store, maxBatch, logger } = this.#context;
    const { name } = this.#projection;
    const { generation, position } = await readOrCreateCheckpoint(session, this.#projection);
    const writer = this.#writer(session, generation, position);
    // A failed batch is reported only when the next one is written, so the culprit may be in either of two batches.
    const culprit = await findCulprit({ store, writer, limit: 2 * maxBatch, signal: this.#signal });
    // A checkpoint of another log cannot be reached again by reading.
    const { after, eventId, code } = culprit ?? {
      after: writer.position,
      eventId: undefined,
      code: failureCode(failure),
    };
    if (!culprit && !(failure instanceof PositionBeyondHeadError)) return;
    this.#mayRetryFailed = false;
    await markFailed(session, name, { generation, position: after }, { eventId, code });
    logger.error({ projection: name, after, eventId, code }, 'projection failed');
  }

  #writer(session: Session, generation: number, position: Position): BatchWriter {
    const { checkpointAdvancer } = this.#context;
    const target = { projection: this.#projection, generation, kind: 'live', checkpointAdvancer } as const;
    return new BatchWriter(session, target, position);
  }
}
