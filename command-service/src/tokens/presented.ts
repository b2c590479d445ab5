import type { Token } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { Expressions } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { openToken, presentToken, type TokenDetails } from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import { withoutUnreadable, type Shown } from './shown.ts';
import { transformWrittenData } from './written-data.ts';

export interface PresentingDependencies {
  readonly keyRing: KeyRing;
  readonly expressions: Expressions;
}

/** The token in its present state, as it may be shown. @throws KeyDestroyedError when it ends meanwhile */
export async function presentAs(
  dependencies: PresentingDependencies,
  details: TokenDetails,
  shown: Shown,
  context: RequestContext,
): Promise<Token> {
  const tenantId = context.principal.tenant.id;
  const place = { tenantId, tokenId: details.id };
  const data = await transformWrittenData(
    expressionsOf(dependencies, context),
    shown.transform,
    details.content,
    () => openToken(dependencies.keyRing, place, details.content, context.now),
  );
  return withoutUnreadable(presentToken(tenantId, details, data), shown);
}
