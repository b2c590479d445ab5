import { decideTokenAccess } from '@token-vault/access';
import { TokensRead, type Json, type Token, type Transform } from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import type { RequestContext } from '@token-vault/service-kit';
import type { TokenDependencies } from './dependencies.ts';
import { presentToken, transformData } from './present.ts';
import { openToken } from './sealing.ts';
import type { TokenDetails } from './state.ts';

/** Tokens that a write answers with although it did not write them: duplicates. */
export class ExistingTokens {
  readonly #dependencies: TokenDependencies;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
  }

  /** decisions.md §5: unchanged, and without `token:read` on it no more than what names it. */
  async show(context: RequestContext, details: TokenDetails): Promise<Token> {
    const tenantId = context.principal.tenant.id;
    const { id, type, content } = details;
    const access = decideTokenAccess(context.principal, 'token:read', { id, containers: content.containers });
    if (!access.isGranted) {
      const { fingerprint, containers } = content;
      return { id, type, tenant_id: tenantId, fingerprint, containers };
    }
    return presentToken(tenantId, details, await this.#reveal(context, details, access.transform));
  }

  /** Showing what is stored is a read: it is on record before it is shown. */
  async #reveal(
    context: RequestContext,
    details: TokenDetails,
    transform: Transform,
  ): Promise<Json | undefined> {
    const { id, type, content } = details;
    const tokens = [{ token_id: id, token_type: type, transform }];
    await this.#dependencies.audit.record(context, TokensRead, { operation: 'read', tokens });
    if (transform === 'redact') return undefined;
    const place = { tenantId: context.principal.tenant.id, tokenId: id };
    try {
      const data = await openToken(this.#dependencies.keyRing, place, content, context.now);
      return transformData(transform, data, content.mask);
    } catch (error) {
      if (error instanceof KeyDestroyedError) return undefined;
      throw error;
    }
  }
}
