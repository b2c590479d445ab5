import { AccessDenied, AuthenticationFailed, idFrom, type VaultEvent } from '@token-vault/contracts';
import { startPosition, type Position } from '@token-vault/event-store';

type Append = (events: readonly VaultEvent[]) => Promise<Position>;

/** Further ones are recorded each time: code cannot fill the memory of the process. */
const mostKnown = 1_000;

const isRefusal = ({ type }: VaultEvent): boolean =>
  type === AccessDenied.type || type === AuthenticationFailed.type;

/** The same for refusals of which the log tells the same, apart from the time. */
const nameOf = ({ type, data, metadata: { actor, request } }: VaultEvent): string =>
  idFrom('refusal', JSON.stringify([type, data, actor, request]));

/** The refusals of one run of code that are in the log. Code may try in a loop, so equal ones are recorded once (ADR 16). */
export class RecordedRefusals {
  readonly #known = new Map<string, Promise<Position>>();
  readonly #durable = new Set<string>();

  /** The names of those that are in the log, for the request that the run was for. */
  get names(): readonly string[] {
    return [...this.#durable];
  }

  /** A run that this one, or this request, waited for has recorded these. */
  note(names: readonly string[]): void {
    for (const name of names) {
      if (this.#known.size >= mostKnown) return;
      this.#known.set(name, Promise.resolve(startPosition));
      this.#durable.add(name);
    }
  }

  /** Appends the events without the refusals that are known. Resolves when all are durable. */
  async append(events: readonly VaultEvent[], append: Append): Promise<Position> {
    const added = new Map(events.map((event) => [isRefusal(event) ? nameOf(event) : event.id, event]));
    const earlier: Promise<Position>[] = [];
    for (const name of added.keys()) {
      const recording = this.#known.get(name);
      if (!recording) continue;
      earlier.push(recording);
      added.delete(name);
    }
    if (added.size === 0 && earlier.length > 0) return (await Promise.all(earlier)).at(-1) ?? startPosition;
    const recording = append([...added.values()]);
    for (const [name, event] of added) if (isRefusal(event)) this.#keep(name, recording);
    await Promise.all([...earlier, recording]);
    return recording;
  }

  #keep(name: string, recording: Promise<Position>): void {
    if (this.#known.size >= mostKnown) return;
    this.#known.set(name, recording);
    recording.then(
      () => this.#durable.add(name),
      // A record that failed is tried again with the next refusal.
      () => this.#known.delete(name),
    );
  }
}
