import type { Principal } from '@token-vault/access';

/** A key that was valid once; the tenant whose log must hear of its use is known. */
export interface RetiredKey {
  readonly tenantId: string;
  readonly applicationId: string;
  /** When it is a session's: then `applicationId` is the application that opened it. */
  readonly sessionId?: string;
  readonly reason: string;
}

/** Whom the credential of a request belongs to. */
export type Identity =
  | { readonly kind: 'authenticated'; readonly principal: Principal }
  /** `detail`: the text of the 401, where "no valid key" would not explain it. */
  | { readonly kind: 'retired'; readonly key: RetiredKey; readonly detail?: string }
  | { readonly kind: 'unknown' };
