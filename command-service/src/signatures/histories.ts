import {
  currentEvent,
  foreignKind,
  signatureOf,
  type EventMetadata,
  type JsonObject,
} from '@token-vault/contracts';
import type { EventStore, RecordedEvent, StoredEvent } from '@token-vault/event-store';
import type { Fold, SignedKind } from './folds.ts';

/** The revisions of the events for which the first signature of their stream vouches. */
export interface Vouched {
  readonly from: number;
  /** That of the signature itself. `noRevision` when it vouches for none. */
  readonly before: number;
}

/** The events of a stream before one of them. */
export interface History {
  readonly fold: Fold;
  /** The revision that follows them. */
  next: number;
  /** One of them carries a signature. */
  hasSignature: boolean;
  /**
   * Unset until it is asked for: the rest of the stream is read once for all its events without a signature, which an attacker may have planted
   * by the thousand.
   */
  vouched?: Vouched;
}

export const beginningOf = ({ begin }: SignedKind): History => ({
  fold: begin(),
  next: 0,
  hasSignature: false,
});

/** Undefined when it is no event that this release knows: a writer of the database may store anything. */
export function decoded({ data, metadata, ...place }: StoredEvent): RecordedEvent | undefined {
  try {
    const texts = { data: JSON.parse(data) as JsonObject, metadata: JSON.parse(metadata) as EventMetadata };
    const event = { ...place, ...currentEvent({ ...place, ...texts }) };
    return foreignKind(event, event.stream) ? undefined : event;
  } catch {
    return undefined;
  }
}

/** Adds an event to what was before it. Data without the form of its type changes nothing. */
export function learn(history: History, event: RecordedEvent | undefined, revision: number): void {
  history.next = revision + 1;
  if (!event) return;
  try {
    history.hasSignature ||= signatureOf(event) !== undefined;
    history.fold.add(event);
  } catch {
    // Written by somebody else.
  }
}

/** Streams whose history is kept for their next event. */
const mostStreams = 1_000;

/** Reads what was before an event in its stream. Each event of a stream is read once as long as not too many other streams are asked for. */
export class Histories {
  readonly #store: Pick<EventStore, 'readStoredStream'>;
  readonly #kept = new Map<string, History>();

  constructor(store: Pick<EventStore, 'readStoredStream'>) {
    this.#store = store;
  }

  async before({ stream, revision }: StoredEvent, kind: SignedKind): Promise<History> {
    const kept = this.#kept.get(stream);
    const history = kept && kept.next <= revision ? kept : beginningOf(kind);
    this.#kept.delete(stream);
    const maxCount = revision - history.next;
    if (maxCount > 0)
      for await (const event of this.#store.readStoredStream(stream, { from: history.next, maxCount }))
        if (event.revision < revision) learn(history, decoded(event), event.revision);
    this.#keep(stream, history);
    return history;
  }

  #keep(stream: string, history: History): void {
    this.#kept.set(stream, history);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostStreams && oldest !== undefined) this.#kept.delete(oldest);
  }
}
