import { ForbiddenError, type ApplicationType, type Permission } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';

/**
 * The giver of permissions, who can give only those that he holds. An operator is outside the tenant and holds all.
 */
export type Maker = { readonly permissions: readonly Permission[] } | 'operator';

/**
 * A management application can be given only permissions that its maker holds (rules.md §6). A new key gives its
 * holder all permissions of the application, so the same rule applies to a new key, and to the permissions before an update.
 */
export function requireHeldBy(maker: Maker, type: ApplicationType, permissions: readonly Permission[]): void {
  if (type !== 'management' || maker === 'operator') return;
  const missing = new Set(permissions.filter((permission) => !maker.permissions.includes(permission)));
  if (missing.size > 0) {
    throw new ForbiddenError(
      `A caller can give to a management application, and change in it, only permissions that the caller holds; it lacks ${[...missing].join(', ')}.`,
    );
  }
}

/** A system principal acts only for an operator (the command line, the first start). */
export const makerOf = ({ principal }: RequestContext): Maker =>
  principal.actor.kind === 'system' ? 'operator' : { permissions: principal.permissions };
