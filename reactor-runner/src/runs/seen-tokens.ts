import { maxSeenTokens } from '@token-vault/contracts';
import type { SeenToken } from './ports.ts';

/** The tokens and cvcs that the code of one run has seen. */
export class SeenTokens {
  readonly #ids = new Set<string>();
  #cvcEndsAt: Date | undefined;

  add(tokens: readonly SeenToken[]): void {
    for (const { id, cvcEndsAt } of tokens) {
      if (this.#ids.size <= maxSeenTokens) this.#ids.add(id);
      this.endBy(cvcEndsAt);
    }
  }

  /** Of a cvc that it was shown. */
  endBy(cvcEndsAt: string | undefined): void {
    if (cvcEndsAt === undefined) return;
    const end = new Date(cvcEndsAt);
    if (this.#cvcEndsAt === undefined || end < this.#cvcEndsAt) this.#cvcEndsAt = end;
  }

  /** Undefined when they are too many to be named. */
  get ids(): readonly string[] | undefined {
    return this.#ids.size > maxSeenTokens ? undefined : [...this.#ids];
  }

  /** When the first cvc ends that it was shown. */
  get cvcEndsAt(): Date | undefined {
    return this.#cvcEndsAt;
  }
}
