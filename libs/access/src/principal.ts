import type { AccessRule, Actor, ApplicationType, Permission, Plan, Transform } from '@token-vault/contracts';

/** The features that the tenant's plan and settings allow. */
export interface TenantContext {
  readonly id: string;
  readonly plan: Plan;
  readonly settings: Readonly<Record<string, string>>;
}

/** The rights of a caller: plain permissions, and rules by priority, the lowest number first. */
export interface Grants {
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
}

/** An authenticated caller: an application, or a session that an application opened. */
export interface Principal extends Grants {
  readonly tenant: TenantContext;
  /** The actor that events name. */
  readonly actor: Actor;
  /** The application itself, or the application that opened the session. */
  readonly applicationId: string;
  readonly applicationType: ApplicationType;
  /** SHA-256 of the caller's current key, as hex. Unset for a principal without a key. */
  readonly keyHash?: string;
  /**
   * Set for a session: the application that authorised it. Answers name this application as the creator of entities that the session makes.
   */
  readonly authorizedBy?: string;
  /**
   * Set for a session: the present grants of the application that authorised it. A session never has more rights than these (rules.md §7),
   * also when that application lost a right after the authorisation.
   */
  readonly authorizer?: Grants;
  /** Set when the request came with a key of a configured proxy: it has the rights of the proxy's application. */
  readonly proxyKeyId?: string;
  /**
   * Set for a client of a configured proxy, with a key of the proxy or without one. It acts by the rights of the proxy's application, whose
   * key it does not have, so it cannot read by them elsewhere.
   */
  readonly isProxyClient?: boolean;
  /**
   * Set for a caller that signed in to the console, and for reactor code that it runs: no answer shows more of a token than this, whatever
   * the rules say (docs/reference/console.md).
   */
  readonly shownAtMost?: Exclude<Transform, 'reveal'>;
  /**
   * Set where the output of a reactor makes tokens: the caller of the run, who has not seen what they are made of. They are shown by its rights
   * to read them.
   */
  readonly reader?: Principal;
  /** The reason that the caller gives for this request (SVC-REASON). Rules may require one (docs/reference/reasons.md). */
  readonly reason?: string;
}

/** The application that holds what the caller takes of its tenant's shares (TenantShares, ThreadShares). */
export const holderOf = ({
  tenant,
  applicationId,
}: Pick<Principal, 'applicationId'> & { readonly tenant: Pick<TenantContext, 'id'> }) => ({
  tenantId: tenant.id,
  applicationId,
});

/** The grants that all must allow what the caller does: its own, and for a session also those of its authorizer. */
export const sidesOf = (principal: Principal): readonly Grants[] =>
  principal.authorizer ? [principal, principal.authorizer] : [principal];
