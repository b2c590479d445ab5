import { randomBytes } from 'node:crypto';
import {
  DeadlineExceededError,
  TimeoutError,
  UnknownError,
  type EventStoreDBClient,
} from '@eventstore/db-client';
import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import { convertToCommandError } from '@eventstore/db-client/dist/utils/CommandError.js';
import type statuses from '@eventstore/db-client/generated/status_pb.js';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import type { AppendRequest } from '../append-request.ts';
import {
  AppendUnansweredError,
  EventStoreUnavailableError,
  type AppendResult,
  type Position,
} from '../port.ts';
import { batchAppendRequest, correlationIdOf } from './append-message.ts';
import { makeCall, type StreamsClient } from './client-internals.ts';
import { asUnanswered, errorKind } from './errors.ts';

type Call = ReturnType<StreamsClient['batchAppend']>;

interface Pending {
  readonly stream: string;
  readonly resolve: (result: AppendResult) => void;
  readonly reject: (error: Error) => void;
}

/** One call of the server, and the appends that wait for its answers, by their numbers. */
interface OpenCall {
  readonly call: Promise<Call>;
  readonly pending: Map<string, Pending>;
}

/** The server has no BatchAppend: nothing was stored. */
export class NoAppendStreamError extends Error {}

const unimplemented = 12;

/**
 * The BatchAppend call of one connection: one stream of messages for all appends. The server answers each append by its correlation id, in
 * any order. The client's own BatchAppend has no deadline, and one table for all clients of the process: the broken stream of one client
 * rejects the appends of the others, and a late answer ends the process.
 */
export class AppendStream {
  readonly #client: EventStoreDBClient;
  /** The first 64 bits of the correlation ids. The other 64 bits count the appends. */
  readonly #idPrefix = String(randomBytes(8).readBigInt64BE());
  #count = 0;
  #opened: OpenCall | undefined;
  #isMissing = false;

  constructor(client: EventStoreDBClient) {
    this.#client = client;
  }

  /** The server has said that it has no BatchAppend. */
  get isMissing(): boolean {
    return this.#isMissing;
  }

  /**
   * @throws NoAppendStreamError
   * @throws AppendUnansweredError when there was no answer in time, or the call has ended before the answer.
   */
  append(request: AppendRequest, deadlineMs: number): Promise<AppendResult> {
    const { call, pending } = (this.#opened ??= this.#open());
    const number = String(++this.#count);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => settle(() => reject(new AppendUnansweredError('the append was not answered in time'))),
        deadlineMs,
      );
      function settle(finish: () => void): void {
        clearTimeout(timer);
        pending.delete(number);
        finish();
      }
      pending.set(number, {
        stream: request.stream,
        resolve: (result) => settle(() => resolve(result)),
        reject: (error) => settle(() => reject(error)),
      });
      const message = batchAppendRequest(request, this.#idPrefix, number);
      // A call that could not be opened rejects its appends itself.
      call.then((open) => pending.has(number) && open.write(message)).catch(() => undefined);
    });
  }

  #open(): OpenCall {
    const pending = new Map<string, Pending>();
    const end = (error: unknown) => {
      if (this.#opened === opened) this.#opened = undefined;
      const failure = failureOf(error);
      this.#isMissing ||= failure instanceof NoAppendStreamError;
      for (const append of [...pending.values()]) append.reject(failure);
    };
    const call = makeCall(this.#client, 'batchAppend', (client, callArguments) =>
      client
        .batchAppend(...callArguments)
        .on('data', (response: streams.BatchAppendResp) => answer(response, pending))
        .on('error', end)
        .on('end', () => end(new Error('the server has ended the call'))),
    );
    const opened = { call, pending };
    call.catch(end);
    return opened;
  }
}

function answer(response: streams.BatchAppendResp, pending: ReadonlyMap<string, Pending>): void {
  const append = pending.get(correlationIdOf(response));
  // The deadline of the append has passed.
  if (!append) return;
  const refused = response.getError();
  const success = response.getSuccess();
  const position = success?.getPosition()?.getCommitPosition();
  if (refused) append.reject(refusalOf(refused, append.stream));
  else if (!success || !position)
    append.reject(new AppendUnansweredError('the server did not say where it stored the append'));
  else append.resolve({ position: position as Position, revision: Number(success.getCurrentRevision()) });
}

function refusalOf(refused: statuses.Status, stream: string): Error {
  if (!refused.hasDetails()) return new UnknownError(undefined, refused.getMessage());
  const error = unpackToCommandError(refused, stream);
  // Phases of the server's commit, which are a `TimeoutError` in a plain append. No deadline is sent.
  return error instanceof DeadlineExceededError ? new TimeoutError(undefined, error.message) : error;
}

/**
 * The reason why no more answers come. The error may be the refusal of one append, but it ends the whole call: the other appends may have
 * been stored.
 */
function failureOf(error: unknown): Error {
  if ((error as { readonly code?: unknown }).code === unimplemented) return new NoAppendStreamError();
  const converted = convertToCommandError(error as Error);
  const failure = asUnanswered(converted, 'append');
  return failure instanceof EventStoreUnavailableError && errorKind(converted) !== 'not-leader'
    ? failure
    : new AppendUnansweredError('the server has ended the call', { cause: error });
}
