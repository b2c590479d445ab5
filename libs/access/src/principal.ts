import type { AccessRule, Actor, ApplicationType, Permission, Plan } from '@token-vault/contracts';

/** What a caller's tenant lets it do. */
export interface TenantContext {
  readonly id: string;
  readonly plan: Plan;
  readonly settings: Readonly<Record<string, string>>;
}

/** What somebody may do: plain permissions, and rules by priority, the most preferred (lowest number) first. */
export interface Grants {
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
}

/** An authenticated caller: an application, or a session that an application opened. */
export interface Principal extends Grants {
  readonly tenant: TenantContext;
  /** Who the events name. */
  readonly actor: Actor;
  /** The application itself, or the one that opened the session. */
  readonly applicationId: string;
  readonly applicationType: ApplicationType;
  /** Of a session: the application that authorised it, which answers name as the creator of what the session makes. */
  readonly authorizedBy?: string;
  /**
   * Of a session: what the application that authorized it may do now. A session never does or sees more than that
   * (rules.md §7), also when that application has lost a right since.
   */
  readonly authorizer?: Grants;
}
