import { NotFoundError, UnavailableError } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { Answer, PendingAnswer, RequestContext } from '@token-vault/operations';
import { requireReadable } from './granted.ts';
import type { FindToken } from './lookup.ts';
import { isExpired } from './row.ts';
import { asRead, ShownTokens, type ShowDependencies } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';

/** The answer to a read of one token. */
export class ShownToken implements PendingAnswer {
  readonly #keyRing: Pick<KeyRing, 'hashes'>;
  readonly #findToken: FindToken;
  readonly #id: string;
  readonly #shown: ShownTokens;

  constructor(
    dependencies: ShowDependencies & { readonly keyRing: Pick<KeyRing, 'hashes'> },
    findToken: FindToken,
    id: string,
  ) {
    this.#keyRing = dependencies.keyRing;
    this.#findToken = findToken;
    this.#id = id;
    this.#shown = new ShownTokens(dependencies, asRead(dependencies, 'read'));
  }

  /** @throws NotFoundError, ForbiddenError */
  async show(context: RequestContext): Promise<void> {
    await this.#put(context);
    await this.#shown.show(context);
  }

  async #put(context: RequestContext): Promise<void> {
    const { tenant } = context.principal;
    const row = await this.#findToken(tenant.id, this.#id);
    if (!row || isExpired(row, context.now)) throw new NotFoundError('Token');
    await requireSignedRows(this.#keyRing, tenant, [row]);
    this.#shown.put([requireReadable(context, row)], context);
  }

  /** The request asks for this token only, so the token is never shown without its data. @throws UnavailableError */
  async renew(context: RequestContext, isLast: boolean): Promise<boolean> {
    if ((await this.#shown.overtaken(context)).length === 0) return false;
    if (isLast) throw new UnavailableError('The token is changed faster than it is shown; try again.');
    await this.#put(context);
    await this.#shown.open(context);
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
