import { shownBy } from '@token-vault/access';
import type { Json, Token, Transform } from '@token-vault/contracts';
import { KeyDestroyedError, type Secret } from '@token-vault/crypto';
import type { RequestContext, Showing } from '@token-vault/operations';
import { openToken, presentToken, shownCvcEndOf, type TokenDetails } from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import type { TokenDependencies } from './dependencies.ts';
import { requireSignedToken } from './signed.ts';
import { recordShown, shownTo, withoutContent, withoutUnreadable } from './shown.ts';
import { transformWrittenData } from './written-data.ts';

/** A duplicate as an answer shows it. `shown` is unset when the caller may not read it. */
export interface ShownDuplicate {
  readonly token: Token;
  readonly createdAt: string;
  readonly shown?: Showing;
  /** Unset when the answer cannot hold a cvc. */
  readonly cvcEndsAt?: string | undefined;
}

/** Tokens in the answer of a write that did not write them: duplicates. */
export class ExistingTokens {
  readonly #dependencies: Pick<TokenDependencies, 'keyRing' | 'audit' | 'expressions'>;

  constructor(dependencies: Pick<TokenDependencies, 'keyRing' | 'audit' | 'expressions'>) {
    this.#dependencies = dependencies;
  }

  /**
   * The token is unchanged (rules.md §5). Without `token:read` on it, the answer of a create holds only its
   * identifying fields, and the answer of an update lacks the fields that depend on its content.
   */
  async show(
    context: RequestContext,
    details: TokenDetails,
    answerOf: 'create' | 'update',
  ): Promise<ShownDuplicate> {
    const tenantId = context.principal.tenant.id;
    const { id, type, content, createdAt } = details;
    await requireSignedToken(this.#dependencies.keyRing, context.principal.tenant, details);
    const shown = shownTo(context.principal, { id, containers: content.containers });
    // The existence of the token is information too, so the record is made for every transform.
    await recordShown(this.#dependencies.audit, context, {
      operation: 'deduplicate',
      details,
      transform: shown.transform,
    });
    if (!shown.isReadable) {
      const { containers } = content;
      const fingerprint = shown.hidesFingerprint ? undefined : content.fingerprint;
      if (answerOf === 'create')
        return { token: { id, type, tenant_id: tenantId, fingerprint, containers }, createdAt };
      const {
        mask: _mask,
        metadata: _metadata,
        search_indexes: _indexes,
        fingerprint_expression: _expression,
        ...visible
      } = withoutUnreadable(presentToken(tenantId, details, undefined), shown);
      return { token: visible, createdAt };
    }
    const data = await this.#reveal(context, details, shown.transform);
    const token = withoutUnreadable(presentToken(tenantId, details, data), shown);
    const transform = shownBy(shown.transform, content.mask !== undefined);
    const cvcEndsAt = shownCvcEndOf(content, transform, context.now);
    return { token, createdAt, shown: { permission: 'token:read', transform }, cvcEndsAt };
  }

  /**
   * For the repeat of an answer. Others may have changed the token since the first answer. So a caller that may not read a changed token is
   * not shown its fingerprint and its place, which the first answer may not have held.
   */
  async showAgain(
    context: RequestContext,
    details: TokenDetails,
    answerOf: 'create' | 'update',
  ): Promise<Token> {
    const { token, shown } = await this.show(context, details, answerOf);
    return shown !== undefined || details.modifiedAt === undefined ? token : withoutContent(token);
  }

  async #reveal(
    context: RequestContext,
    details: TokenDetails,
    transform: Transform,
  ): Promise<Secret<Json> | undefined> {
    const { id, content } = details;
    const place = { tenantId: context.principal.tenant.id, tokenId: id };
    try {
      return await transformWrittenData(expressionsOf(this.#dependencies, context), transform, content, () =>
        openToken(this.#dependencies.keyRing, place, content, context.now),
      );
    } catch (error) {
      if (error instanceof KeyDestroyedError) return undefined;
      throw error;
    }
  }
}
