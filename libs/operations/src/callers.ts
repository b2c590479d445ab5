import type { Principal } from '@token-vault/access';

/** A key that was valid earlier. Its tenant is known, so the use of the key is recorded in the tenant's log. */
export interface RetiredKey {
  readonly tenantId: string;
  readonly applicationId: string;
  /** Set when the key belongs to a session; `applicationId` is then the application that opened the session. */
  readonly sessionId?: string;
  readonly reason: string;
}

/** The owner of the credential of a request. */
export type Identity =
  | { readonly kind: 'authenticated'; readonly principal: Principal }
  /** `detail`: the text of the 401, where "no valid key" would not explain it. */
  | { readonly kind: 'retired'; readonly key: RetiredKey; readonly detail?: string }
  | { readonly kind: 'unknown' };
