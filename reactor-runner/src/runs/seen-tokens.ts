import { lesserOf } from '@token-vault/access';
import {
  ConflictError,
  isMadeByCode,
  isRun,
  maxSeenTokens,
  type SeenToken,
  type TokenIdentity,
} from '@token-vault/contracts';
import type { OpenedTokens, ShownToken } from './ports.ts';

const tooMany = () =>
  new ConflictError(
    'conflict',
    `The code of one run is shown at most ${maxSeenTokens.toLocaleString('en')} tokens. The request was done, but its answer is not given.`,
  );

/** The tokens and cvcs that the code of one run was shown. */
export class SeenTokens {
  readonly #ids = new Set<string>();
  /**
   * For each token (each that had the id), application or caller, and permission: the transform that showed most. A token of which the code
   * only got information has an entry of its own.
   */
  readonly #tokens = new Map<string, SeenToken>();
  #used: readonly TokenIdentity[] = [];
  #isComplete = true;
  #isFull = false;
  #cvcEndsAt: Date | undefined;

  /**
   * Called before the code is given an answer. The rights to each token that is shown are decided when the result of the run is given, so
   * the code is not given an answer with more tokens than can be named. Tokens that the code makes need no such decision.
   * @throws ConflictError
   */
  add(tokens: readonly ShownToken[], areAll = true): void {
    // A refusal of only those answers that hold new tokens could reveal something about data. So the code is given no further answer.
    if (this.#isFull) throw tooMany();
    if (!areAll) this.#isComplete = false;
    for (const { id, createdAt, shown, cvcEndsAt } of tokens) {
      this.#endBy(cvcEndsAt);
      const token = {
        id,
        ...(createdAt === undefined ? {} : { createdAt }),
        ...(shown === undefined ? {} : { shown }),
      };
      const fits = isRun(token) || this.#ids.size < maxSeenTokens || this.#ids.has(id);
      if (!fits && isMadeByCode(token)) this.#isComplete = false;
      else {
        // The refusal reveals to the code that these tokens exist, so they decide about the result too.
        this.#isFull ||= !fits;
        this.#add(token);
      }
    }
    if (this.#isFull) throw tooMany();
  }

  #add(token: SeenToken): void {
    const { id, createdAt, shown } = token;
    if (!isRun(token)) this.#ids.add(id);
    const key = JSON.stringify([
      id,
      createdAt,
      shown?.applicationId,
      shown?.permission,
      shown?.isTold,
      shown?.ran,
      shown?.caller,
    ]);
    const before = this.#tokens.get(key)?.shown;
    const isMore = before && shown && lesserOf(before.transform, shown.transform) !== shown.transform;
    if (!before || isMore) this.#tokens.set(key, token);
  }

  /** Called with the tokens of the arguments when they are opened. */
  useAll({ madeAt, cvcEndsAt }: Pick<OpenedTokens, 'madeAt' | 'cvcEndsAt'>): void {
    this.#used = [...madeAt].map(([id, createdAt]) => ({ id, createdAt }));
    this.#endBy(cvcEndsAt);
  }

  /** Called with the end of a cvc that the code was shown. */
  #endBy(cvcEndsAt: string | undefined): void {
    if (cvcEndsAt === undefined) return;
    const end = new Date(cvcEndsAt);
    if (this.#cvcEndsAt === undefined || end < this.#cvcEndsAt) this.#cvcEndsAt = end;
  }

  /** The tokens of the arguments. */
  get used(): readonly TokenIdentity[] {
    return this.#used;
  }

  get tokens(): readonly SeenToken[] {
    return [...this.#tokens.values()];
  }

  /** Of different tokens. */
  get count(): number {
    return this.#ids.size;
  }

  /** False when there are others: the code made more than `maxSeenTokens`, or an inner run did not name all. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** The end of the first cvc that the code was shown. */
  get cvcEndsAt(): Date | undefined {
    return this.#cvcEndsAt;
  }
}
