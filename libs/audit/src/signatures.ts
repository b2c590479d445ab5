import { signedEventTypes } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { nameOf, type Finding } from './compare.ts';
import { Findings } from './findings.ts';
import type { Covered } from './stretch.ts';
import { tenantOf } from './tenant-of.ts';

/** Gives the events of signed types whose signature does not check, and why. It holds what it needs for one verification. */
export type CheckSignatures = (
  events: readonly StoredEvent[],
) => Promise<readonly { readonly event: StoredEvent; readonly problem: string }[]>;

/** The signatures of the events that a verification has read. The checkpoints do not tell of a planted event that the vault has sealed since. */
export class ReadSignatures {
  readonly #check: CheckSignatures;
  #read: StoredEvent[] = [];
  /** Each with the name of its event. */
  readonly #found = new Findings<Finding & { readonly name: string }>();

  constructor(check: CheckSignatures) {
    this.#check = check;
  }

  /** Events that cannot be in their place are named for that. */
  add(event: StoredEvent, { misplaced }: Covered): void {
    if (misplaced === undefined && signedEventTypes.has(event.type)) this.#read.push(event);
  }

  /** Checks the events that were added since the last call. To be called for each page of the log, since the events are held until then. */
  async check(): Promise<void> {
    const events = this.#read;
    if (events.length === 0) return;
    this.#read = [];
    for (const { event, problem } of await this.#check(events)) {
      const name = nameOf(event);
      const { position } = event;
      this.#found.add({ position, tenantId: tenantOf(event) ?? '-', problem: `${name} ${problem}`, name });
    }
  }

  /** The number of those that are not kept. */
  get more(): number {
    return this.#found.more;
  }

  /** Those of events that `findings` do not name already. */
  notAmong(findings: readonly Omit<Finding, 'tenantId'>[]): readonly Finding[] {
    const named = new Map(findings.map(({ position, problem }) => [position, problem]));
    return this.#found.kept.filter(({ position, name }) => !named.get(position)?.startsWith(name));
  }
}
