import { holderOf } from '@token-vault/access';
import { isOverAtOnce, largeBytes } from '@token-vault/batching';
import type { PatchTokenBody } from '@token-vault/contracts';
import { bodyTurns, type BodyTurns } from '@token-vault/http';
import type { RequestContext } from '@token-vault/operations';
import type { TokenState } from './state.ts';

/** The bytes of the data and of all that is stored beside it, about. */
function bytesOf(state: TokenState): number {
  if (state.kind !== 'present') return 0;
  const { data, cvc = '', ...rest } = state.details.content;
  // Sealed values are base64url text.
  return (data.length + cvc.length) * 0.75 + JSON.stringify(rest).length;
}

const bytesOfPatch = ({ data, ...rest }: PatchTokenBody): number =>
  JSON.stringify(rest).length + (data === undefined ? 0 : JSON.stringify(data.expose()).length);

type PatchingRequest = Pick<RequestContext, 'principal' | 'outOfTurn' | 'signal'>;

/**
 * A patch works for the whole token, however small it is itself: all data is opened, sealed, signed and stored again. So a patch of a large token takes a
 * turn, as a body of that size does. The bytes that the patch brings had their turn as a body.
 */
export class PatchTurn {
  readonly #context: PatchingRequest;
  readonly #patch: PatchTokenBody;
  readonly #turns: Pick<BodyTurns, 'take'>;
  #end = (): void => undefined;

  constructor(context: PatchingRequest, patch: PatchTokenBody, turns: Pick<BodyTurns, 'take'> = bodyTurns) {
    this.#context = context;
    this.#patch = patch;
    this.#turns = turns;
  }

  /**
   * Reads the token for one attempt, which may work when this resolves. Only the stored token tells its size, so it is read before the turn. A patch that must
   * wait holds neither its place nor the token, and reads the token again afterwards.
   */
  async read<Before extends { readonly state: TokenState }>(read: () => Promise<Before>): Promise<Before> {
    this.end();
    const before = await read();
    const stored = bytesOf(before.state);
    const size = stored < largeBytes ? 0 : stored - bytesOfPatch(this.#patch);
    if (size < largeBytes) return before;
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#end = resolve;
    const begun = this.#begin(size, over);
    if (await isOverAtOnce(begun)) return begun.then(() => before);
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
