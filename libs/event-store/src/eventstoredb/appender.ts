import { setTimeout as delay } from 'node:timers/promises';
import { WrongExpectedVersionError } from '@eventstore/db-client';
import type { AppendRequest } from '../append-request.ts';
import {
  AppendTooLargeError,
  AppendUnansweredError,
  EventStoreUnavailableError,
  noRevision,
  RevisionConflictError,
  type AppendResult,
} from '../port.ts';
import { NoAppendStreamError } from './append-stream.ts';
import { AppendQueues } from './append-queues.ts';
import { LastingConnection, type Connection, type ConnectionSettings } from './connection.ts';
import { asTooLarge, asUnanswered, asUnavailable, errorKind } from './errors.ts';
import { Semaphore } from './semaphore.ts';
import { appendPlainly } from './plain-append.ts';
import { proposedBytes } from './recorded.ts';
import type { Scope } from './scope.ts';

export interface AppenderSettings extends ConnectionSettings {
  readonly maxConcurrentAppends: number;
  /** Maximum bytes of one append, as the server counts them. */
  readonly maxAppendBytes: number;
  readonly scope: () => Promise<Scope>;
}

const repeatAfterMs = 50;
/** The server refuses more than 100 calls on a connection, and a plain append is a call. */
const maxPlainAppends = 64;
/** A message of the append stream is one append; servers take messages of up to 4 MiB. A larger append is sent event by event. */
const maxMessageBytes = 2 * 1024 * 1024;

/** Appends to the server, on a connection that no read and no subscription uses. */
export class Appender {
  readonly #settings: AppenderSettings;
  readonly #connection: LastingConnection;
  readonly #semaphore: Semaphore;
  readonly #plainSemaphore: Semaphore;
  readonly #queues: AppendQueues;

  constructor(settings: AppenderSettings) {
    this.#settings = settings;
    this.#connection = new LastingConnection(settings.connectionString);
    this.#semaphore = new Semaphore(settings.maxConcurrentAppends, settings.deadlineMs / 2);
    this.#plainSemaphore = new Semaphore(maxPlainAppends, settings.deadlineMs / 2);
    this.#queues = new AppendQueues((request) => this.#append(request), settings.deadlineMs / 2);
  }

  append(request: AppendRequest): Promise<AppendResult> {
    return request.expected === 'any' ? this.#queues.append(request) : this.#append(request);
  }

  async #append(request: AppendRequest): Promise<AppendResult> {
    const bytes = request.events.reduce((sum, event) => sum + proposedBytes(event), 0);
    const { maxAppendBytes } = this.#settings;
    if (bytes > maxAppendBytes) throw new AppendTooLargeError(bytes, maxAppendBytes);
    return this.#semaphore.run(async () => {
      const stream = (await this.#settings.scope()).nameOf(request.stream);
      const connection = this.#connection.get();
      try {
        return await connection.use(() => this.#sendOnce(connection, { ...request, stream }));
      } catch (error) {
        const failure = asAppendFailure(error, request, bytes);
        if (failure instanceof EventStoreUnavailableError) this.#connection.discard(connection);
        throw failure;
      }
    });
  }

  /** Resolves after the appends under way. */
  async close(): Promise<void> {
    await this.#queues.idle();
    await this.#semaphore.idle();
    await this.#connection.close();
  }

  /**
   * Repeats an append with the same ids until it is answered. If another call with the same ids is still under way, the server does not
   * answer, and aborts after 2 s. The server still knows the ids, whatever the expectation is.
   */
  async #sendOnce(connection: Connection, request: AppendRequest): Promise<AppendResult> {
    const until = performance.now() + this.#settings.deadlineMs;
    for (let isRepeat = false; ; isRepeat = true) {
      const leftMs = until - performance.now();
      try {
        return await this.#send(connection, request, Math.max(1, leftMs));
      } catch (error) {
        if (errorKind(error) === 'timeout' && leftMs > repeatAfterMs) await delay(repeatAfterMs);
        // The first attempt may have been stored meanwhile, whatever happens to the next one.
        else if (isRepeat && asUnavailable(error) instanceof EventStoreUnavailableError)
          throw new AppendUnansweredError('the append was not answered', { cause: error });
        else throw error;
      }
    }
  }

  async #send(connection: Connection, request: AppendRequest, deadlineMs: number): Promise<AppendResult> {
    const { appends, client } = connection;
    if (!appends.isMissing && request.bytes <= maxMessageBytes) {
      try {
        return await appends.append(request, deadlineMs);
      } catch (error) {
        if (!(error instanceof NoAppendStreamError)) throw error;
      }
    }
    return this.#plainSemaphore.run(() => appendPlainly(client, request, deadlineMs));
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
