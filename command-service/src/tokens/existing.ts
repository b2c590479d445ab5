import type { Json, Token, Transform } from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import type { RequestContext } from '@token-vault/service-kit';
import { expressionsOf } from '../dependencies.ts';
import type { TokenDependencies } from './dependencies.ts';
import { presentToken, transformData } from './present.ts';
import { openToken } from './sealing.ts';
import { requireSignedToken } from './signed.ts';
import { recordShown, shownTo, withoutUnreadable } from './shown.ts';
import type { TokenDetails } from './state.ts';

/** Tokens that a write answers with although it did not write them: duplicates. */
export class ExistingTokens {
  readonly #dependencies: Pick<TokenDependencies, 'keyRing' | 'audit' | 'expressions'>;

  constructor(dependencies: Pick<TokenDependencies, 'keyRing' | 'audit' | 'expressions'>) {
    this.#dependencies = dependencies;
  }

  /**
   * rules.md §5: unchanged; without `token:read` on it, the answer of a create has only what names it, that of an update
   * lacks what tells of its content.
   */
  async show(context: RequestContext, details: TokenDetails, answerOf: 'create' | 'update'): Promise<Token> {
    const tenantId = context.principal.tenant.id;
    const { id, type, content } = details;
    await requireSignedToken(this.#dependencies.keyRing, context.principal.tenant, details);
    const shown = shownTo(context.principal, { id, containers: content.containers });
    // That the token is there is an answer too, whatever is shown of it.
    await recordShown(this.#dependencies.audit, context, 'deduplicate', details, shown.transform);
    if (!shown.isReadable) {
      const { fingerprint, containers } = content;
      if (answerOf === 'create') return { id, type, tenant_id: tenantId, fingerprint, containers };
      const {
        mask: _mask,
        metadata: _metadata,
        search_indexes: _indexes,
        fingerprint_expression: _expression,
        ...visible
      } = withoutUnreadable(presentToken(tenantId, details, undefined), shown);
      return visible;
    }
    return presentToken(tenantId, details, await this.#reveal(context, details, shown.transform));
  }

  async #reveal(
    context: RequestContext,
    details: TokenDetails,
    transform: Transform,
  ): Promise<Json | undefined> {
    const { id, content } = details;
    if (transform === 'redact') return undefined;
    const place = { tenantId: context.principal.tenant.id, tokenId: id };
    try {
      const data = await openToken(this.#dependencies.keyRing, place, content, context.now);
      return await transformData(expressionsOf(this.#dependencies, context), transform, data, content.mask);
    } catch (error) {
      if (error instanceof KeyDestroyedError) return undefined;
      throw error;
    }
  }
}
