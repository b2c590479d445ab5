import { AsyncLocalStorage } from 'node:async_hooks';
import {
  EventStoreUnavailableError,
  noRevision,
  type EventStore,
  type ReadStreamOptions,
  type RecordedEvent,
} from './port.ts';

/** The streams that a decision has read to their end, each with its newest revision at the earliest reading. */
type ReadSet = Map<string, number>;

/** A value, and the streams that it was read from. */
interface Remembered {
  readonly value: unknown;
  readonly reads: ReadSet;
  isOvertaken: boolean;
}

interface Decision {
  /** The streams that the present attempt has read. */
  readonly reads: ReadSet;
  /** Notes that the present attempt begins to find rights. */
  readonly beforeRights: () => void;
  /** The values that all attempts so far have read, by their keys. */
  readonly remembered: Map<string, Remembered>;
  /** The values that are being read now. */
  readonly running: Map<string, Promise<Remembered>>;
}

/** Reads within this time count as reads at one moment. The rights of a caller count for 100 ms, too. */
const momentMsByDefault = 50;
/** From the third attempt on, an attempt that took less than this counts, even if streams have newer events: it has read only the changes. */
const shortMs = 100;
const shortFrom = 3;
const mostAttempts = 8;
/** How long rights count after they were found, in the first attempt, and at most. */
const rightsMs = 100;
const mostRightsMs = 800;

const decisions = new AsyncLocalStorage<Decision>();

/** Of several readings the earliest counts, in whatever order they end: the decision may depend on it. */
function note(reads: ReadSet, stream: string, revision: number): void {
  reads.set(stream, Math.min(reads.get(stream) ?? revision, revision));
}

function noteAll(reads: ReadSet, others: ReadSet): void {
  for (const [stream, revision] of others) note(reads, stream, revision);
}

/** Notes a stream when its end was read. A range that ends before it says nothing of newer events. */
async function* noting(
  reads: ReadSet,
  stream: string,
  { from, backwards = false, maxCount = Infinity }: ReadStreamOptions,
  events: AsyncIterable<RecordedEvent>,
): AsyncGenerator<RecordedEvent, void> {
  let count = 0;
  let newest = backwards ? noRevision : (from ?? 0) - 1;
  for await (const event of events) {
    count += 1;
    if (!backwards) newest = event.revision;
    else if (from === undefined && count === 1) note(reads, stream, event.revision);
    yield event;
  }
  const isEnd = backwards ? from === undefined && count === 0 : count < maxCount;
  if (isEnd) note(reads, stream, newest);
}

type Adapter = Omit<EventStore, 'consistently' | 'remembered'>;

/** The streams that have an event after the revision that was read. */
async function overtakenStreams({ readStoredStream }: Adapter, reads: ReadSet): Promise<ReadonlySet<string>> {
  const newer = [...reads].map(async ([stream, revision]) => {
    for await (const _ of readStoredStream(stream, { from: revision + 1, maxCount: 1 })) return [stream];
    return [];
  });
  return new Set((await Promise.all(newer)).flat());
}

async function consistently<Result>(
  adapter: Adapter,
  momentMs: number,
  decide: (beforeRights: () => void) => Promise<Result>,
): Promise<Result> {
  const remembered: Decision['remembered'] = new Map();
  for (let attempt = 1; attempt <= mostAttempts; attempt += 1) {
    const reads: ReadSet = new Map();
    const beganMs = performance.now();
    // A decision that reads no rights is as recent as its streams.
    let rightsAtMs = Infinity;
    const beforeRights = () => (rightsAtMs = Math.min(rightsAtMs, performance.now()));
    const attempted: Decision = { reads, beforeRights, remembered, running: new Map() };
    const decided = await decisions.run(attempted, () => decide(beforeRights));
    if (performance.now() - beganMs < (attempt < shortFrom ? momentMs : shortMs)) return decided;
    const overtaken = await overtakenStreams(adapter, reads);
    // `overtakenStreams` may have waited for the database. On a busy machine each attempt may take long, so the next one may take longer.
    const isRecent = performance.now() - rightsAtMs < Math.min(rightsMs * 2 ** (attempt - 1), mostRightsMs);
    if (overtaken.size === 0 && isRecent) return decided;
    for (const each of remembered.values())
      each.isOvertaken ||= [...each.reads.keys()].some((stream) => overtaken.has(stream));
  }
  throw new EventStoreUnavailableError('streams, or rights, change faster than they are read');
}

/** Reads, and notes which streams are read for it. */
async function readAnew<Value>(
  decision: Decision,
  key: string,
  read: (before: Value | undefined) => Promise<Value>,
): Promise<Remembered> {
  const { remembered, running } = decision;
  const reads: ReadSet = new Map();
  try {
    const before = remembered.get(key)?.value as Value | undefined;
    const value = await decisions.run({ ...decision, reads }, () => read(before));
    const found = { value, reads, isOvertaken: false };
    remembered.set(key, found);
    return found;
  } finally {
    running.delete(key);
  }
}

async function remember<Value>(
  decision: Decision,
  key: string,
  read: (before: Value | undefined) => Promise<Value>,
): Promise<Value> {
  const { reads, remembered, running } = decision;
  const before = remembered.get(key);
  let found = before?.isOvertaken === false ? before : undefined;
  if (!found) {
    const reading = running.get(key) ?? readAnew(decision, key, read);
    running.set(key, reading);
    found = await reading;
  }
  noteAll(reads, found.reads);
  return found.value as Value;
}

/** Adds `consistently` and `remembered` to an adapter: optimistic validation of what a decision has read. */
export function withConsistentReads(adapter: Adapter, momentMs = momentMsByDefault): EventStore {
  return {
    ...adapter,
    readStream(stream, options = {}) {
      const events = adapter.readStream(stream, options);
      const decision = decisions.getStore();
      return decision ? noting(decision.reads, stream, options, events) : events;
    },
    // A decision inside another one is validated with it.
    consistently(decide) {
      const outer = decisions.getStore();
      return outer ? decide(outer.beforeRights) : consistently(adapter, momentMs, decide);
    },
    remembered(key, read) {
      const decision = decisions.getStore();
      return decision ? remember(decision, key, read) : read(undefined);
    },
  };
}
