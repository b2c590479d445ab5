/** An event as a client sent it. */
export interface Proposed {
  readonly id: string;
  readonly type: string;
  readonly contentType: string;
  readonly data: Uint8Array;
  readonly metadata: Uint8Array;
}

export interface Recorded extends Proposed {
  readonly stream: string;
  readonly revision: number;
  readonly position: number;
  readonly createdMs: number;
}

export type Expected = 'any' | 'no-stream' | 'stream-exists' | number;

export type Outcome =
  | { readonly kind: 'stored'; readonly revision: number; readonly position: number }
  | { readonly kind: 'wrong-revision'; readonly current: number }
  | { readonly kind: 'too-large' }
  | { readonly kind: 'stream-deleted' };

interface Stream {
  readonly events: Recorded[];
  readonly revisions: Map<string, number>;
  isTombstoned: boolean;
  /** `$tb`, `$maxCount` and `$maxAge` of the stream's metadata, applied when it is read. */
  truncateBefore: number;
  maxCount: number;
  maxAgeSeconds: number;
}

/**
 * A log with the rules of EventStoreDB 24.10 (IndexWriter.CheckCommit, Streams.*.cs: read, not copied). Positions are
 * the bytes written so far, so they are ordered and not dense.
 */
export class EventLog {
  readonly events: Recorded[] = [];
  /** Called with the events of each append before it is answered. */
  onStored: (events: readonly Recorded[]) => void = () => undefined;
  readonly #streams = new Map<string, Stream>();
  readonly #listeners = new Set<() => void>();
  readonly #maxAppendBytes: number;
  #position = 0;

  constructor(maxAppendBytes = 1024 * 1024) {
    this.#maxAppendBytes = maxAppendBytes;
  }

  append(name: string, expected: Expected, events: readonly Proposed[]): Outcome {
    const bytes = events.reduce(
      (sum, { data, metadata, type }) => sum + data.length + metadata.length + 2 * type.length,
      0,
    );
    if (bytes > this.#maxAppendBytes) return { kind: 'too-large' };
    const stream = this.#stream(name);
    if (stream.isTombstoned) return { kind: 'stream-deleted' };
    const repeated = this.#findRepeat(stream, expected, events);
    if (repeated) return { kind: 'stored', revision: repeated.revision, position: repeated.position };
    if (!this.#isMet(stream, expected, events))
      return { kind: 'wrong-revision', current: stream.events.length - 1 };
    if (isSoftlyDeleted(stream)) stream.truncateBefore = stream.events.length;
    return { kind: 'stored', ...this.#store(name, stream, events) };
  }

  /** Deletes a stream softly (it may return, with the next revision) or for ever. */
  remove(name: string, expected: Expected, isForGood: boolean): Outcome {
    const stream = this.#stream(name);
    if (stream.isTombstoned) return { kind: 'stream-deleted' };
    if (!this.#isMet(stream, expected, []))
      return { kind: 'wrong-revision', current: stream.events.length - 1 };
    const event = { id: crypto.randomUUID(), metadata: new Uint8Array(), contentType: 'application/json' };
    if (isForGood) {
      stream.isTombstoned = true;
      const tombstone = { ...event, type: '$streamDeleted', data: new Uint8Array() };
      return { kind: 'stored', ...this.#store(name, stream, [tombstone]) };
    }
    const data = new TextEncoder().encode(JSON.stringify({ $tb: Number.MAX_SAFE_INTEGER }));
    const change = { ...event, type: '$metadata', data };
    return { kind: 'stored', ...this.#store(`$$${name}`, this.#stream(`$$${name}`), [change]) };
  }

  isTombstoned(name: string): boolean {
    return this.#streams.get(name)?.isTombstoned ?? false;
  }

  /** The events that a reader of the stream may see. Undefined when the stream does not exist or was deleted. */
  readable(name: string): readonly Recorded[] | undefined {
    const stream = this.#streams.get(name);
    if (!stream || stream.events.length === 0 || isSoftlyDeleted(stream)) return undefined;
    const { events, truncateBefore, maxCount, maxAgeSeconds } = stream;
    const first = Math.max(truncateBefore, events.length - maxCount, 0);
    const since = Date.now() - maxAgeSeconds * 1000;
    return first === 0 && maxAgeSeconds === Infinity
      ? events
      : events.filter((event) => event.revision >= first && event.createdMs >= since);
  }

  /**
   * Replaces the whole log, as an attacker could who has the disk, or as an operator who puts back a copy of its files. The events are in the
   * order of their positions.
   */
  rewrite(events: readonly Recorded[]): void {
    this.events.splice(0, Infinity, ...events);
    this.#position = Math.max(this.#position, events.at(-1)?.position ?? 0);
    for (const { stream } of events) this.#stream(stream);
    const own = Map.groupBy(events, ({ stream }) => stream);
    for (const [name, stream] of this.#streams) {
      const ordered = (own.get(name) ?? []).toSorted((a, b) => a.revision - b.revision);
      stream.events.splice(0, Infinity, ...ordered);
      for (const { id, revision } of ordered) stream.revisions.set(id, revision);
      stream.isTombstoned = ordered.at(-1)?.type === '$streamDeleted';
    }
    for (const event of events) this.#applyMetadata(event);
  }

  /** Index of the first event at or after a position. */
  indexOf(position: number): number {
    let [low, high] = [0, this.events.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.events[middle] as Recorded).position < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Calls `listener` once, at the next event or `wake`. */
  once(listener: () => void): void {
    this.#listeners.add(listener);
  }

  wake(): void {
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }

  #stream(name: string): Stream {
    const known = this.#streams.get(name);
    if (known) return known;
    const limits = { truncateBefore: 0, maxCount: Infinity, maxAgeSeconds: Infinity };
    const stream = { events: [], revisions: new Map<string, number>(), isTombstoned: false, ...limits };
    this.#streams.set(name, stream);
    return stream;
  }

  /** The last of these events when all of them are stored already, at the expected revisions. */
  #findRepeat(stream: Stream, expected: Expected, events: readonly Proposed[]): Recorded | undefined {
    const first = events[0];
    if (!first) return undefined;
    const isLoose = expected === 'any' || expected === 'stream-exists';
    const start = isLoose
      ? (stream.revisions.get(first.id) ?? -1)
      : expected === 'no-stream'
        ? 0
        : expected + 1;
    if (start < 0 || !events.every((event, index) => stream.events[start + index]?.id === event.id))
      return undefined;
    return stream.events[start + events.length - 1];
  }

  #isMet(stream: Stream, expected: Expected, events: readonly Proposed[]): boolean {
    const current = stream.events.length - 1;
    const isGone = current < 0 || isSoftlyDeleted(stream);
    switch (expected) {
      case 'any':
        return !events.some((event) => stream.revisions.has(event.id));
      case 'stream-exists':
        return !isGone && !events.some((event) => stream.revisions.has(event.id));
      case 'no-stream':
        return isGone;
      default:
        return expected === current;
    }
  }

  #store(name: string, stream: Stream, events: readonly Proposed[]): { revision: number; position: number } {
    const stored = events.map((event) => {
      this.#position += 64 + event.data.length + event.metadata.length;
      const place = {
        stream: name,
        revision: stream.events.length,
        position: this.#position,
        createdMs: Date.now(),
      };
      const recorded = { ...event, ...place };
      stream.revisions.set(event.id, recorded.revision);
      stream.events.push(recorded);
      this.events.push(recorded);
      this.#applyMetadata(recorded);
      return recorded;
    });
    this.onStored(stored);
    this.wake();
    return { revision: stream.events.length - 1, position: this.#position };
  }

  /** The stream `$$a` has the metadata of `a`. */
  #applyMetadata({ stream: name, data }: Recorded): void {
    if (!name.startsWith('$$')) return;
    const stream = this.#stream(name.slice(2));
    const metadata = JSON.parse(Buffer.from(data).toString() || '{}') as Record<string, number | undefined>;
    stream.truncateBefore = metadata['$tb'] ?? 0;
    stream.maxCount = metadata['$maxCount'] ?? Infinity;
    stream.maxAgeSeconds = metadata['$maxAge'] ?? Infinity;
  }
}

function isSoftlyDeleted({ events, truncateBefore }: Stream): boolean {
  return events.length > 0 && truncateBefore > 0 && truncateBefore >= events.length;
}
