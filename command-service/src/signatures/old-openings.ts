import { ApplicationCreated, isUuid, streams } from '@token-vault/contracts';
import type { EventStore, RecordedEvent, StoredEvent } from '@token-vault/event-store';
import { textOf } from './genuine.ts';
import { decoded } from './histories.ts';

/** Positions of events. */
interface Span {
  readonly after: bigint;
  readonly before: bigint;
}

const never: Span = { after: 0n, before: 0n };
const endOfPositions = 2n ** 64n;
/** Applications whose span is kept. */
const mostSpans = 10_000;

/**
 * Releases before version 3 of SessionOpened opened sessions without a signature, also after their tenant was signed. They refused the keys of an
 * application in form 2 of signatures, which later releases alone give. So such an opening stands behind the creation of its application, and
 * before the application's first signature in form 2.
 */
export class OldOpenings {
  readonly #store: Pick<EventStore, 'readStoredStream'>;
  readonly #spans = new Map<string, Span>();

  constructor(store: Pick<EventStore, 'readStoredStream'>) {
    this.#store = store;
  }

  async has({ type, version, position }: StoredEvent, { data, metadata }: RecordedEvent): Promise<boolean> {
    if (type !== 'SessionOpened' || version >= 3) return false;
    const { application_id: id } = data as { readonly application_id?: unknown };
    if (typeof id !== 'string' || !isUuid(id)) return false;
    const { after, before } = await this.#spanOf(streams.application(metadata.tenant_id, id));
    return after < BigInt(position) && BigInt(position) < before;
  }

  async #spanOf(stream: string): Promise<Span> {
    const known = this.#spans.get(stream);
    if (known) return known;
    const span = await this.#read(stream);
    if (this.#spans.size >= mostSpans) this.#spans.clear();
    this.#spans.set(stream, span);
    return span;
  }

  async #read(stream: string): Promise<Span> {
    let after: bigint | undefined;
    for await (const stored of this.#store.readStoredStream(stream)) {
      const event = decoded(stored);
      if (after === undefined && event?.type !== ApplicationCreated.type) return never;
      after ??= BigInt(stored.position);
      if (event && textOf(event)?.startsWith('m2.')) return { after, before: BigInt(stored.position) };
    }
    return after === undefined ? never : { after, before: endOfPositions };
  }
}
