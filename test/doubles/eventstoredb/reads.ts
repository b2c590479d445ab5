import { status, type ServerWritableStream } from '@grpc/grpc-js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import type { Faults } from './faults.ts';
import type { EventLog, Recorded } from './log.ts';
import {
  caughtUpResponse,
  checkpointResponse,
  confirmationResponse,
  eventResponse,
  notFoundResponse,
  rpcError,
  streamDeletedError,
  streamName,
} from './wire.ts';

type Options = streams.ReadReq.Options;

/** The number of examined events between two checkpoints when the client names no window. */
const defaultSearchWindow = 32;
/** Events that a server keeps for a live subscription. */
const liveBuffer = 32;
const tooSlow =
  'Operation timed out: Consumer too slow to handle event while live. Client resubscription required.';

/** The reading half of the streams service: pages and subscriptions, of one stream or of the whole log. */
export class Reads {
  /** The filter and the limit of each read and subscription of the whole log, with their number. */
  readonly ofLog = new Map<string, number>();
  readonly #log: EventLog;
  readonly #faults: Faults;
  readonly #subscriptions = new Set<ReadCall>();

  constructor(log: EventLog, faults: Faults) {
    this.#log = log;
    this.#faults = faults;
  }

  async read(call: ServerWritableStream<streams.ReadReq, streams.ReadResp>): Promise<void> {
    const options = call.request.getOptions();
    const read = new ReadCall(call, () => this.#log.wake());
    if (options?.hasAll()) this.#note(options);
    if (!options || this.#faults.swallowReads) return;
    if (options.hasSubscription()) return this.#subscribe(read, options);
    const events = options.hasStream() ? this.#streamEvents(read, options) : this.#logEvents(options);
    if (!events) return;
    for (const event of events) {
      if (read.isGone) return;
      await read.write(eventResponse(event));
    }
    read.end();
  }

  /** Ends every subscription, with an error as an overloaded server does, or without one as at a clean stop. */
  drop(how: 'error' | 'end'): void {
    for (const subscription of this.#subscriptions) {
      if (how === 'end') subscription.end();
      else subscription.fail(rpcError(status.UNAVAILABLE, 'Server Is Too Busy'));
    }
    this.#subscriptions.clear();
  }

  #note(options: Options): void {
    const limit = options.hasSubscription() ? 'live' : `at most ${options.getCount()}`;
    const read = `${filterText(options.getFilter())}, ${limit}`;
    this.ofLog.set(read, (this.ofLog.get(read) ?? 0) + 1);
  }

  #streamEvents(read: ReadCall, options: Options): Iterable<Recorded> | undefined {
    const from = options.getStream();
    const name = streamName(from?.getStreamIdentifier());
    if (this.#log.isTombstoned(name)) return void read.fail(streamDeletedError(name));
    const events = this.#log.readable(name);
    if (!events) {
      void read.write(notFoundResponse(name));
      return void read.end();
    }
    const count = Number(options.getCount());
    const revision = from?.hasRevision() ? Number(from.getRevision()) : undefined;
    const first = events[0]?.revision ?? 0;
    if (isBackwards(options)) {
      const end = revision === undefined ? events.length : revision - first + 1;
      return events.slice(Math.max(0, end - count), Math.max(0, end)).reverse();
    }
    if (from?.hasEnd()) return [];
    const start = Math.max(0, (revision ?? 0) - first);
    return events.slice(start, start + count);
  }

  /** Inclusive of the given position. */
  #logEvents(options: Options): Iterable<Recorded> {
    const all = options.getAll();
    const { events } = this.#log;
    const count = Number(options.getCount());
    const filter = options.getFilter();
    const matches = filter ? matcher(filter) : () => true;
    const given = all?.getPosition()?.getCommitPosition();
    const index = given === undefined ? undefined : this.#log.indexOf(Number(given));
    if (isBackwards(options)) {
      const end = all?.hasStart() ? 0 : (index ?? events.length);
      return lastMatches(events, end, count, matches);
    }
    if (all?.hasEnd()) return [];
    return firstMatches(events, index ?? 0, count, matches);
  }

  /** Exclusive of the given position. One cursor over the log serves catching up and live events. */
  async #subscribe(read: ReadCall, options: Options): Promise<void> {
    this.#subscriptions.add(read);
    await read.write(confirmationResponse());
    const { log, wants, matches, checkpointEvery } = this.#plan(options);
    let index = this.#firstIndex(options);
    let considered = 0;
    let passed: number | undefined;
    let isLive = false;
    while (!read.isGone) {
      if (isLive && this.#isTooSlow(log.length - index)) {
        read.fail(rpcError(status.ABORTED, tooSlow));
        break;
      }
      const event = this.#faults.stallSubscriptions ? undefined : log[index];
      if (event) {
        index++;
        if (!wants(event)) continue;
        passed = event.position;
        if (matches(event)) await read.write(eventResponse(event));
        if (checkpointEvery && ++considered % checkpointEvery === 0)
          await read.write(checkpointResponse(passed));
      } else if (isLive || this.#faults.stallSubscriptions) {
        await new Promise<void>((resolve) => this.#log.once(resolve));
      } else {
        isLive = true;
        if (checkpointEvery && passed !== undefined) await read.write(checkpointResponse(passed));
        await read.write(caughtUpResponse());
      }
    }
    this.#subscriptions.delete(read);
  }

  #isTooSlow(waiting: number): boolean {
    return this.#faults.dropsSlowReaders && waiting > liveBuffer;
  }

  #plan(options: Options) {
    const stream = options.getStream();
    const name = streamName(stream?.getStreamIdentifier());
    const after = stream?.hasRevision() ? Number(stream.getRevision()) : -1;
    const filter = options.getFilter();
    const window = filter?.hasMax() ? filter.getMax() : defaultSearchWindow;
    return {
      log: this.#log.events,
      wants: (event: Recorded) => !stream || (event.stream === name && event.revision > after),
      matches: filter ? matcher(filter) : () => true,
      checkpointEvery: filter ? filter.getCheckpointintervalmultiplier() * window : 0,
    };
  }

  #firstIndex(options: Options): number {
    const all = options.getAll();
    if (all?.hasEnd() || options.getStream()?.hasEnd()) return this.#log.events.length;
    const after = all?.getPosition()?.getCommitPosition();
    return after === undefined ? 0 : this.#log.indexOf(Number(after) + 1);
  }
}

/** One call with its flow control: a write resolves when the client has room for more, or has left. */
class ReadCall {
  readonly #call: ServerWritableStream<streams.ReadReq, streams.ReadResp>;
  #isOver = false;
  #wake: () => void = () => undefined;

  constructor(call: ServerWritableStream<streams.ReadReq, streams.ReadResp>, onGone: () => void) {
    this.#call = call;
    call.on('drain', () => this.#wake());
    for (const end of ['cancelled', 'close', 'error'] as const) {
      call.on(end, () => {
        this.#isOver = true;
        this.#wake();
        onGone();
      });
    }
  }

  get isGone(): boolean {
    return this.#isOver || this.#call.cancelled;
  }

  async write(response: streams.ReadResp): Promise<void> {
    if (this.isGone || this.#call.write(response)) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  end(): void {
    this.#isOver = true;
    this.#call.end();
  }

  fail(error: Error): void {
    this.#isOver = true;
    this.#call.emit('error', error);
  }
}

function isBackwards(options: Options): boolean {
  return options.getReadDirection() === streams.ReadReq.Options.ReadDirection.BACKWARDS;
}

/** The server continues until it has found the requested number of events, or the log ends. */
function firstMatches(
  events: readonly Recorded[],
  from: number,
  count: number,
  matches: (event: Recorded) => boolean,
): readonly Recorded[] {
  const found: Recorded[] = [];
  for (let index = from; index < events.length && found.length < count; index++) {
    const event = events[index] as Recorded;
    if (matches(event)) found.push(event);
  }
  return found;
}

function lastMatches(
  events: readonly Recorded[],
  end: number,
  count: number,
  matches: (event: Recorded) => boolean,
): readonly Recorded[] {
  const found: Recorded[] = [];
  for (let index = end - 1; index >= 0 && found.length < count; index--) {
    const event = events[index] as Recorded;
    if (matches(event)) found.push(event);
  }
  return found;
}

function matcher(filter: streams.ReadReq.Options.FilterOptions): (event: Recorded) => boolean {
  const onStream = filter.hasStreamIdentifier();
  const expression = onStream ? filter.getStreamIdentifier() : filter.getEventType();
  const pattern = expression?.getRegex() ? new RegExp(expression.getRegex()) : undefined;
  const prefixes = expression?.getPrefixList() ?? [];
  const keyOf = (event: Recorded) => (onStream ? event.stream : event.type);
  if (pattern) return (event) => pattern.test(keyOf(event));
  return (event) => prefixes.some((prefix) => keyOf(event).startsWith(prefix));
}

function filterText(filter: streams.ReadReq.Options.FilterOptions | undefined): string {
  if (!filter) return 'everything';
  const isOfStreams = filter.hasStreamIdentifier();
  const expression = isOfStreams ? filter.getStreamIdentifier() : filter.getEventType();
  const pattern = expression?.getRegex() || expression?.getPrefixList().join(' ');
  return `${isOfStreams ? 'streams' : 'types'} ${pattern}`;
}
