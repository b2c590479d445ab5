import { holderOf } from '@token-vault/access';
import { isOverAtOnce, largeBytes } from '@token-vault/batching';
import type { PatchTokenBody } from '@token-vault/contracts';
import { BodyTurns } from '@token-vault/http';
import type { RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import type { TokenState } from './state.ts';

/** The bytes of the data and of all that is stored beside it, about. */
export function bytesOfToken({ content }: Pick<TokenDetails, 'content'>): number {
  const { data, cvc = '', ...rest } = content;
  // Sealed values are base64url text.
  return (data.length + cvc.length) * 0.75 + JSON.stringify(rest).length;
}

const bytesOfPatch = ({ data, ...rest }: PatchTokenBody): number =>
  JSON.stringify(rest).length + (data === undefined ? 0 : JSON.stringify(data.expose()).length);

/** The bytes for which a patch takes its turn. Those that it brings had their turn as a body. */
export function bytesBesidePatch(state: TokenState, patch: PatchTokenBody): number {
  const stored = state.kind === 'present' ? bytesOfToken(state.details) : 0;
  return stored < largeBytes ? 0 : stored - bytesOfPatch(patch);
}

/**
 * Repeats that are worked on together. They are not counted with the bodies: the body of the repeat counts until its answer, so a repeat of a large create would wait
 * for itself. The shares of the thread are the same.
 */
export const repeatTurns = new BodyTurns();

type WaitingRequest = Pick<RequestContext, 'principal' | 'outOfTurn' | 'signal'>;

/**
 * Work for whole tokens, however small its request is: a patch opens, seals, signs and stores all data again, a repeat opens it. So where the tokens are large, it
 * takes a turn, as a body of that size does.
 */
export class TokensTurn {
  readonly #context: WaitingRequest;
  readonly #turns: Pick<BodyTurns, 'take'>;
  #end = (): void => undefined;

  constructor(context: WaitingRequest, turns: Pick<BodyTurns, 'take'>) {
    this.#context = context;
    this.#turns = turns;
  }

  /**
   * Reads the tokens for one attempt, which may work when this resolves. Only stored tokens tell their size, so they are read before the turn. Work that must
   * wait holds neither its place nor the tokens, and reads them again afterwards.
   */
  async read<Before>(read: () => Promise<Before>, bytesOf: (before: Before) => number): Promise<Before> {
    this.end();
    const before = await read();
    const size = bytesOf(before);
    if (size < largeBytes) return before;
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#end = resolve;
    const begun = this.#begin(size, over);
    // No function here may refer to `before`: the wait would hold the tokens.
    if (await isOverAtOnce(begun)) {
      await begun;
      return before;
    }
    return this.#context.outOfTurn(() => begun).then(read);
  }

  #begin(size: number, over: Promise<void>): Promise<void> {
    const { principal, signal } = this.#context;
    const holder = holderOf(principal);
    return new Promise((begin, fail) => {
      this.#turns.take({ holder, size, over, signal }, begin).catch(fail);
    });
  }

  /** The work of the attempt is over. May be called more than once. */
  end(): void {
    this.#end();
  }
}
