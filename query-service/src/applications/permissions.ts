import {
  applicationTypes,
  isPermissionAllowed,
  permissions,
  type ApplicationType,
  type Permission,
} from '@token-vault/contracts';

export interface PermissionDescription {
  readonly type: Permission;
  readonly description: string;
  readonly application_types: readonly ApplicationType[];
}

const descriptions: Readonly<Record<Permission, string>> = {
  'token:create': 'Create tokens',
  'token:read': 'Read tokens',
  'token:update': 'Update tokens',
  'token:delete': 'Delete tokens',
  'token:search': 'Search tokens',
  'token:use': 'Use tokens in reactors',
  'application:create': 'Create applications',
  'application:read': 'Read applications',
  'application:update': 'Update applications and regenerate their keys',
  'application:delete': 'Delete applications',
  'reactor:create': 'Create reactors',
  'reactor:read': 'Read reactors',
  'reactor:update': 'Update reactors',
  'reactor:delete': 'Delete reactors',
  'proxy:create': 'Create proxies',
  'proxy:read': 'Read proxies',
  'proxy:update': 'Update proxies',
  'proxy:delete': 'Delete proxies',
  'log:read': 'Read logs',
  'tenant:read': 'Read the tenant',
  'tenant:update': 'Update the tenant',
  'tenant:delete': 'Delete the tenant',
  'report:read': 'Read reports',
};

const described: readonly PermissionDescription[] = permissions.map((type) => ({
  type,
  description: descriptions[type],
  application_types: applicationTypes.filter((application) => isPermissionAllowed(type, application)),
}));

/** All permissions, or those that an application of `type` may hold (rules.md §6). */
export const describePermissions = (type?: ApplicationType): readonly PermissionDescription[] =>
  type ? described.filter(({ application_types }) => application_types.includes(type)) : described;
