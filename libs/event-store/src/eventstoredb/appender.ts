import { setTimeout as delay } from 'node:timers/promises';
import { ANY, NO_STREAM, STREAM_EXISTS, WrongExpectedVersionError } from '@eventstore/db-client';
import type { AppendExpectedRevision, EventStoreDBClient } from '@eventstore/db-client';
import type { AppendRequest } from '../append-request.ts';
import {
  AppendTooLargeError,
  AppendUnansweredError,
  EventStoreUnavailableError,
  noRevision,
  RevisionConflictError,
  type AppendResult,
  type ExpectedRevision,
} from '../port.ts';
import { LastingConnection, type ConnectionSettings } from './connection.ts';
import { withDeadline } from './deadline.ts';
import { asTooLarge, asUnanswered, asUnavailable, errorKind } from './errors.ts';
import { Gate } from './gate.ts';
import { positionOf, proposedBytes, proposedEvent } from './recorded.ts';
import type { Scope } from './scope.ts';

export interface AppenderSettings extends ConnectionSettings {
  /** Maximum number of concurrent appends: the server refuses more than 100 calls on a connection. */
  readonly maxConcurrentAppends: number;
  /** Maximum bytes of one append, as the server counts them. */
  readonly maxAppendBytes: number;
  readonly scope: () => Promise<Scope>;
}

/** This adapter waits so much longer than the call's own deadline for the client to apply the deadline. */
const graceMs = 500;
const repeatAfterMs = 50;

/** Each append is one call, on a connection that no read and no subscription uses. */
export class Appender {
  readonly #settings: AppenderSettings;
  readonly #connection: LastingConnection;
  readonly #gate: Gate;

  constructor(settings: AppenderSettings) {
    this.#settings = settings;
    this.#connection = new LastingConnection(settings.connectionString);
    this.#gate = new Gate(settings.maxConcurrentAppends, settings.deadlineMs / 2);
  }

  async append(request: AppendRequest): Promise<AppendResult> {
    const bytes = request.events.reduce((sum, event) => sum + proposedBytes(event), 0);
    const { maxAppendBytes, deadlineMs } = this.#settings;
    if (bytes > maxAppendBytes) throw new AppendTooLargeError(bytes, maxAppendBytes);
    return this.#gate.pass(async () => {
      const stream = (await this.#settings.scope()).nameOf(request.stream);
      const connection = this.#connection.get();
      try {
        const appending = connection.use((client) => sendOnce(client, { ...request, stream }, deadlineMs));
        return await withDeadline(appending, deadlineMs + graceMs, 'the append was not answered');
      } catch (error) {
        const failure = asAppendFailure(error, request, bytes);
        if (failure instanceof EventStoreUnavailableError) this.#connection.discard(connection);
        throw failure;
      }
    });
  }

  /** Resolves after the appends under way. */
  async close(): Promise<void> {
    await this.#gate.idle();
    await this.#connection.close();
  }
}

/**
 * Repeats an append with the same ids until it is answered. If another call with the same ids is still under way, the server does not
 * answer, and aborts after 2 s (ABORTED). The server still knows the ids, whatever the expectation is.
 */
async function sendOnce(
  client: EventStoreDBClient,
  request: AppendRequest,
  deadlineMs: number,
): Promise<AppendResult> {
  const until = performance.now() + deadlineMs;
  for (let isRepeat = false; ; isRepeat = true) {
    const leftMs = until - performance.now();
    try {
      return await send(client, request, Math.max(1, leftMs));
    } catch (error) {
      if (errorKind(error) === 'timeout' && leftMs > repeatAfterMs) await delay(repeatAfterMs);
      // The first attempt may have been stored meanwhile, whatever happens to the next one.
      else if (isRepeat && asUnavailable(error) instanceof EventStoreUnavailableError)
        throw new AppendUnansweredError('the append was not answered', { cause: error });
      else throw error;
    }
  }
}

async function send(
  client: EventStoreDBClient,
  { stream, events, expected }: AppendRequest,
  deadlineMs: number,
): Promise<AppendResult> {
  const { nextExpectedRevision, position } = await client.appendToStream(stream, events.map(proposedEvent), {
    expectedRevision: expectedRevision(expected),
    deadline: deadlineMs,
  });
  if (!position) throw new EventStoreUnavailableError('the server did not say where it stored the append');
  return { position: positionOf(position), revision: Number(nextExpectedRevision) };
}

/** `checkAppend` has replaced `noRevision` by `no-stream`: the client has no name for revision -1. */
function expectedRevision(expected: ExpectedRevision): AppendExpectedRevision {
  switch (expected) {
    case 'any':
      return ANY;
    case 'no-stream':
      return NO_STREAM;
    case 'exists':
      return STREAM_EXISTS;
    default:
      return BigInt(expected);
  }
}

function asAppendFailure(error: unknown, { stream, expected }: AppendRequest, bytes: number): Error {
  if (error instanceof WrongExpectedVersionError) {
    const { actualVersion } = error;
    const actual = typeof actualVersion === 'bigint' ? Number(actualVersion) : noRevision;
    return new RevisionConflictError(stream, expected, actual);
  }
  return asTooLarge(error, bytes) ?? asUnanswered(error, `append to ${stream}`);
}
