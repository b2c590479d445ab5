import { NotFoundError, UnavailableError } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { Answer, PendingAnswer, RequestContext } from '@token-vault/operations';
import { requireReadable } from './granted.ts';
import type { TokenRow } from './row.ts';
import { asRead, ShownTokens, type ShowDependencies } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';
import type { SingleReads } from './single-reads.ts';

interface TokenDependencies extends ShowDependencies {
  readonly keyRing: ShowDependencies['keyRing'] & Pick<KeyRing, 'hashes'>;
  readonly singleReads: SingleReads;
}

/** The answer to a read of one token. */
export class ShownToken implements PendingAnswer {
  readonly #dependencies: TokenDependencies;
  readonly #id: string;
  readonly #shown: ShownTokens;

  constructor(dependencies: TokenDependencies, id: string, context: Pick<RequestContext, 'principal'>) {
    this.#dependencies = dependencies;
    this.#id = id;
    const keyRing = dependencies.singleReads.openerOf(context);
    this.#shown = new ShownTokens(dependencies, asRead({ ...dependencies, keyRing }, 'read'));
  }

  /** @throws NotFoundError, ForbiddenError, UnavailableError */
  async show(context: RequestContext): Promise<void> {
    await this.#dependencies.singleReads.run(context, this.#id, async (row, isLarge) => {
      await this.#put(row, context);
      // A large token waits for its turn of the thread, so it is recorded afterwards.
      await (isLarge ? this.#shown.open(context) : this.#shown.show(context));
    });
  }

  async #put(row: TokenRow, context: RequestContext): Promise<void> {
    await requireSignedRows(this.#dependencies.keyRing, context.principal.tenant, [row]);
    this.#shown.put([requireReadable(context, row)], context);
  }

  /** The request asks for this token only, so the token is never shown without its data. @throws UnavailableError */
  async renew(context: RequestContext, isLast: boolean): Promise<boolean> {
    if ((await this.#shown.overtaken(context)).length === 0) return false;
    if (isLast) throw new UnavailableError('The token is changed faster than it is shown; try again.');
    await this.#dependencies.singleReads.run(context, this.#id, async (row) => {
      await this.#put(row, context);
      await this.#shown.open(context);
    });
    return true;
  }

  record(context: RequestContext): Promise<void> {
    return this.#shown.record(context);
  }

  answer(): Answer | undefined {
    const [body] = this.#shown.tokens;
    // The token was deleted meanwhile.
    if (!body) throw new NotFoundError('Token');
    return this.#shown.isOnRecord ? { body, tokens: this.#shown.seen('token:read') } : undefined;
  }
}
