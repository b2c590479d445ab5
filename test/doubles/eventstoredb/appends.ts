import {
  status,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
} from '@grpc/grpc-js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import googleEmpty from 'google-protobuf/google/protobuf/empty_pb.js';
import type { Faults } from './faults.ts';
import type { EventLog, Expected, Outcome, Proposed } from './log.ts';
import {
  identifierOf,
  proposed,
  rpcError,
  statusOf,
  streamDeletedError,
  streamName,
  uuidText,
} from './wire.ts';

type BatchCall = ServerDuplexStream<streams.BatchAppendReq, streams.BatchAppendResp>;

interface PendingBatch {
  readonly options: streams.BatchAppendReq.Options;
  readonly events: Proposed[];
}

/** The writing half of the streams service. */
export class Appends {
  readonly #log: EventLog;
  readonly #faults: Faults;
  readonly #batchCalls = new Set<BatchCall>();
  /** The first ids of appends that are stored and not answered yet. */
  readonly #underWay = new Set<string>();

  constructor(log: EventLog, faults: Faults) {
    this.#log = log;
    this.#faults = faults;
  }

  append(
    call: ServerReadableStream<streams.AppendReq, streams.AppendResp>,
    answer: sendUnaryData<streams.AppendResp>,
  ): void {
    let options: streams.AppendReq.Options | undefined;
    const events: Proposed[] = [];
    call.on('data', (request: streams.AppendReq) => {
      if (request.hasOptions()) options = request.getOptions();
      else events.push(proposed(request.getProposedMessage()));
    });
    call.on('error', () => undefined);
    call.on('end', () =>
      this.#later(() => {
        if (!options) return answer(rpcError(status.INVALID_ARGUMENT, 'no options'));
        if (this.#faults.failAppends) return answer(rpcError(this.#faults.failAppends, 'told to fail'));
        const name = streamName(options.getStreamIdentifier());
        const expected = expectedOf(options, options.getRevision());
        this.#store(name, expected, events, (outcome) => answerAppend(answer, name, expected, outcome));
      }),
    );
  }

  batchAppend(call: BatchCall): void {
    if (!this.#faults.batchAppend)
      return void call.emit('error', rpcError(status.UNIMPLEMENTED, 'there is no BatchAppend'));
    const pending = new Map<string, PendingBatch>();
    this.#batchCalls.add(call);
    call.on('data', (request: streams.BatchAppendReq) => {
      const id = uuidText(request.getCorrelationId());
      const options = request.getOptions();
      if (options) pending.set(id, { options, events: [] });
      const batch = pending.get(id);
      batch?.events.push(...request.getProposedMessagesList().map(proposed));
      if (!batch || !request.getIsFinal()) return;
      pending.delete(id);
      this.#later(() => this.#finish(call, request.getCorrelationId(), batch));
    });
    call.on('error', () => undefined);
    call.on('close', () => this.#batchCalls.delete(call));
    call.on('end', () => call.end());
  }

  remove(
    call: ServerUnaryCall<streams.DeleteReq | streams.TombstoneReq, unknown>,
    isForGood: boolean,
  ): { readonly position: number } {
    const options = call.request.getOptions();
    if (!options) throw rpcError(status.INVALID_ARGUMENT, 'no options');
    const name = streamName(options.getStreamIdentifier());
    const expected = expectedOf(options, options.getRevision());
    const outcome = this.#log.remove(name, expected, isForGood);
    if (outcome.kind === 'stored') return outcome;
    if (outcome.kind === 'stream-deleted') throw streamDeletedError(name);
    throw rpcError(status.FAILED_PRECONDITION, 'Delete failed due to WrongExpectedVersion.', {
      exception: 'wrong-expected-version',
      'stream-name': name,
      'expected-version': typeof expected === 'number' ? expected : -1,
      'actual-version': outcome.kind === 'wrong-revision' ? outcome.current : -1,
    });
  }

  /** Breaks the oldest open batch streams; all by default. */
  killBatch(count = Infinity): void {
    for (const call of [...this.#batchCalls].slice(0, count)) {
      this.#batchCalls.delete(call);
      call.emit('error', rpcError(status.UNAVAILABLE, 'Server Is Too Busy'));
    }
  }

  #finish(call: BatchCall, correlationId: shared.UUID | undefined, { options, events }: PendingBatch): void {
    if (this.#faults.failAppends)
      return void call.emit('error', rpcError(this.#faults.failAppends, 'told to fail'));
    const name = streamName(options.getStreamIdentifier());
    const expected = expectedOf(options, options.getStreamPosition());
    this.#store(name, expected, events, (outcome) => {
      if (call.destroyed || call.cancelled) return;
      const response = batchResponse(name, expected, outcome);
      response.setCorrelationId(correlationId);
      response.setStreamIdentifier(identifierOf(name));
      call.write(response);
    });
  }

  #store(
    name: string,
    expected: Expected,
    events: readonly Proposed[],
    answer: (outcome: Answer) => void,
  ): void {
    if (this.#faults.swallow === 'before-storing') return;
    const [first] = events;
    const isUnderWay = first !== undefined && this.#underWay.has(first.id);
    const outcome = this.#log.append(name, expected, events);
    if (this.#faults.swallow === 'after-storing') return;
    if (outcome.kind !== 'stored' || !first) return answer(outcome);
    // An append whose ids another append brought already gets no answer about the commit.
    if (isUnderWay)
      return void setTimeout(() => answer({ kind: 'commit-timeout' }), this.#faults.commitTimeoutMs);
    this.#underWay.add(first.id);
    after(this.#faults.commitMs, () => {
      this.#underWay.delete(first.id);
      answer(outcome);
    });
  }

  #later(work: () => void): void {
    if (this.#faults.appendDelayMs > 0) setTimeout(work, this.#faults.appendDelayMs);
    else work();
  }
}

type Answer = Outcome | { readonly kind: 'commit-timeout' };

const commitTimeout = 'Operation timed out: Commit phase timeout.';

function after(ms: number, work: () => void): void {
  if (ms > 0) setTimeout(work, ms);
  else setImmediate(work);
}

interface ExpectationOptions {
  hasAny(): boolean;
  hasNoStream(): boolean;
  hasStreamExists(): boolean;
}

function expectedOf(options: ExpectationOptions, revision: string | number): Expected {
  if (options.hasAny()) return 'any';
  if (options.hasNoStream()) return 'no-stream';
  return options.hasStreamExists() ? 'stream-exists' : Number(revision);
}

function answerAppend(
  answer: sendUnaryData<streams.AppendResp>,
  name: string,
  expected: Expected,
  outcome: Answer,
): void {
  const response = new streams.AppendResp();
  switch (outcome.kind) {
    case 'stream-deleted':
      return answer(streamDeletedError(name));
    case 'commit-timeout':
      return answer(rpcError(status.ABORTED, commitTimeout));
    case 'too-large': {
      const trailers = { exception: 'maximum-append-size-exceeded', 'maximum-append-size': 1024 * 1024 };
      return answer(rpcError(status.INVALID_ARGUMENT, 'Maximum Append Size Exceeded.', trailers));
    }
    case 'wrong-revision': {
      const wrong = new streams.AppendResp.WrongExpectedVersion();
      if (outcome.current < 0) wrong.setCurrentNoStream(new shared.Empty());
      else wrong.setCurrentRevision(String(outcome.current));
      if (expected === 'no-stream') wrong.setExpectedNoStream(new shared.Empty());
      else if (expected === 'stream-exists') wrong.setExpectedStreamExists(new shared.Empty());
      else if (expected === 'any') wrong.setExpectedAny(new shared.Empty());
      else wrong.setExpectedRevision(String(expected));
      response.setWrongExpectedVersion(wrong);
      return answer(null, response);
    }
    case 'stored': {
      const success = new streams.AppendResp.Success();
      const position = new streams.AppendResp.Position();
      position.setCommitPosition(String(outcome.position));
      position.setPreparePosition(String(outcome.position));
      success.setPosition(position);
      success.setCurrentRevision(String(outcome.revision));
      response.setSuccess(success);
      return answer(null, response);
    }
  }
}

function batchResponse(name: string, expected: Expected, outcome: Answer): streams.BatchAppendResp {
  const response = new streams.BatchAppendResp();
  switch (outcome.kind) {
    case 'stream-deleted': {
      const detail = new shared.StreamDeleted();
      detail.setStreamIdentifier(identifierOf(name));
      response.setError(statusOf('StreamDeleted', detail));
      return response;
    }
    case 'commit-timeout':
      response.setError(statusOf('Timeout', new shared.Timeout()));
      return response;
    case 'too-large': {
      const detail = new shared.MaximumAppendSizeExceeded();
      detail.setMaxappendsize(1024 * 1024);
      response.setError(statusOf('MaximumAppendSizeExceeded', detail));
      return response;
    }
    case 'wrong-revision': {
      const detail = new shared.WrongExpectedVersion();
      if (outcome.current < 0) detail.setCurrentNoStream(new googleEmpty.Empty());
      else detail.setCurrentStreamRevision(String(outcome.current));
      if (expected === 'no-stream') detail.setExpectedNoStream(new googleEmpty.Empty());
      else if (expected === 'stream-exists') detail.setExpectedStreamExists(new googleEmpty.Empty());
      else if (expected === 'any') detail.setExpectedAny(new googleEmpty.Empty());
      else detail.setExpectedStreamPosition(String(expected));
      response.setError(statusOf('WrongExpectedVersion', detail));
      return response;
    }
    case 'stored': {
      const success = new streams.BatchAppendResp.Success();
      const position = new shared.AllStreamPosition();
      position.setCommitPosition(String(outcome.position));
      position.setPreparePosition(String(outcome.position));
      success.setPosition(position);
      success.setCurrentRevision(String(outcome.revision));
      response.setSuccess(success);
      return response;
    }
  }
}
