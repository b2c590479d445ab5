import type { AccessRule, Actor, ApplicationType, Permission, Plan } from '@token-vault/contracts';

/** What a caller's tenant lets it do. */
export interface TenantContext {
  readonly id: string;
  readonly plan: Plan;
  readonly settings: Readonly<Record<string, string>>;
}

/** An authenticated caller: an application, or a session that an application opened. */
export interface Principal {
  readonly tenant: TenantContext;
  /** Who the events name. */
  readonly actor: Actor;
  /** The application itself, or the one that opened the session. */
  readonly applicationId: string;
  readonly applicationType: ApplicationType;
  readonly permissions: readonly Permission[];
  /** By priority, the most preferred (lowest number) first. */
  readonly rules: readonly AccessRule[];
}
