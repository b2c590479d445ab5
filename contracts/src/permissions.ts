import { z } from 'zod';

export const applicationTypes = ['private', 'public', 'management'] as const;
export type ApplicationType = (typeof applicationTypes)[number];

const crud = ['create', 'read', 'update', 'delete'] as const;
const management = <Entity extends string>(entity: Entity) =>
  crud.map((verb) => `${entity}:${verb}` as const);

export const tokenPermissions = [
  'token:create',
  'token:read',
  'token:update',
  'token:delete',
  'token:search',
  'token:use',
] as const;
export type TokenPermission = (typeof tokenPermissions)[number];

export const managementPermissions = [
  ...management('application'),
  ...management('reactor'),
  ...management('proxy'),
  'log:read',
  'tenant:read',
  'tenant:update',
  'tenant:delete',
  'report:read',
] as const;

export const permissions = [...tokenPermissions, ...managementPermissions] as const;
export type Permission = (typeof permissions)[number];
export const permissionName = z.enum(permissions);

const publicPermissions: ReadonlySet<Permission> = new Set(['token:create', 'token:update']);
const tokenPermissionSet: ReadonlySet<Permission> = new Set(tokenPermissions);

export function isTokenPermission(permission: Permission): permission is TokenPermission {
  return tokenPermissionSet.has(permission);
}

/** Whether an application of this type may hold the permission (rules.md §6). */
export function isPermissionAllowed(permission: Permission, type: ApplicationType): boolean {
  switch (type) {
    case 'management':
      return !isTokenPermission(permission);
    case 'private':
      return isTokenPermission(permission);
    case 'public':
      return publicPermissions.has(permission);
  }
}

export const transforms = ['redact', 'mask', 'reveal'] as const;
export type Transform = (typeof transforms)[number];
