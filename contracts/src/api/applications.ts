import { z } from 'zod';
import { applicationTypes, permissionName, transforms } from '../permissions.ts';
import { expiry, optional, optionalBody, text } from '../text.ts';
import { accessRuleCondition, accessRules, reasonDemands } from './access-rules.ts';
import { page, paging, repeatable } from './paging.ts';

export const entityName = text(1, 200).refine((name) => name.trim() !== '', 'must not be blank');
const granted = {
  permissions: optional(z.array(permissionName).max(50)),
  rules: optional(accessRules),
};
/** Used by `refine` after parsing: permissions or rules must grant something. */
const grantsSomething = (body: { permissions: unknown[] | undefined; rules: unknown[] | undefined }) =>
  (body.permissions?.length ?? 0) + (body.rules?.length ?? 0) > 0;
const nothingGranted = { message: 'permissions or rules must be given', path: ['permissions'] };

export const createApplicationBody = z
  .object({
    name: entityName,
    type: z.enum(applicationTypes),
    ...granted,
    expires_at: optional(expiry),
  })
  .refine(grantsSomething, nothingGranted);
export type CreateApplicationBody = z.infer<typeof createApplicationBody>;

export const updateApplicationBody = z
  .object({ name: entityName, ...granted })
  .refine(grantsSomething, nothingGranted);
export type UpdateApplicationBody = z.infer<typeof updateApplicationBody>;

export const application = z.object({
  id: z.uuid(),
  tenant_id: z.uuid(),
  name: z.string(),
  key: z.string().optional(),
  type: z.enum(applicationTypes),
  permissions: z.array(permissionName).optional(),
  rules: z
    .array(
      z.object({
        description: z.string().optional(),
        priority: z.int(),
        container: z.string().optional(),
        conditions: z.array(accessRuleCondition).optional(),
        transform: z.enum(transforms),
        permissions: z.array(permissionName),
        search_data: z.boolean().optional(),
        reason: z.enum(reasonDemands).optional(),
        break_glass: z.boolean().optional(),
      }),
    )
    .optional(),
  created_by: z.string().optional(),
  created_at: z.string().optional(),
  modified_by: z.string().optional(),
  modified_at: z.string().optional(),
  expires_at: z.string().optional(),
});
export type Application = z.infer<typeof application>;

/** The longest time for which a replaced key or secret may stay valid: 30 days. */
const longestOverlapSeconds = 2_592_000;
export const overlapQuery = z.object({
  overlap: z
    .string()
    .regex(/^\d{1,7}$/, 'must be a whole number of seconds')
    .transform(Number)
    .refine((seconds) => seconds <= longestOverlapSeconds, `must be at most ${longestOverlapSeconds}`)
    .optional(),
});

/** The maximum number of valid keys of one application, including the main key. */
export const maxApplicationKeys = 10;
export const createApplicationKeyBody = optionalBody(z.object({ expires_at: optional(expiry) }));
export type CreateApplicationKeyBody = z.infer<typeof createApplicationKeyBody>;
export const applicationKey = z.object({
  id: z.uuid(),
  /** Present only in the answer to the request that made the key. */
  key: z.string().optional(),
  created_at: z.string(),
  expires_at: z.string().optional(),
  /** The beginning of the hour in which the key was used last. */
  last_used_at: z.string().optional(),
});
export type ApplicationKey = z.infer<typeof applicationKey>;
export const applicationKeys = z.array(applicationKey);

const idText = z.string().pipe(z.uuid());
export const listApplicationsQuery = z.object({
  id: repeatable(idText),
  type: repeatable(z.string().pipe(z.enum(applicationTypes))),
  ...paging,
});
export const applicationPage = page(application);
export const uuidParams = z.object({ id: z.uuid().toLowerCase() });
export const keyParams = uuidParams.extend({ key_id: z.uuid().toLowerCase() });

export const permissionsQuery = z.object({ application_type: z.enum(applicationTypes).optional() });
export const permissionList = z.array(
  z.object({
    type: permissionName,
    description: z.string(),
    application_types: z.array(z.enum(applicationTypes)),
  }),
);
