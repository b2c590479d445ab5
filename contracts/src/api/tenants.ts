import { z } from 'zod';
import { permissionName } from '../permissions.ts';
import { optional, text } from '../text.ts';
import { accessRules } from './access-rules.ts';
import { entityName } from './applications.ts';

export const plans = ['standard', 'enterprise'] as const;
export type Plan = (typeof plans)[number];

export const tenantSettings = z
  .record(text(1, 100), text(0, 1000))
  .refine((map) => Object.keys(map).length <= 50, 'must have at most 50 settings');
export const updateTenantBody = z.object({ name: entityName, settings: optional(tenantSettings) });

export const tenant = z.object({
  id: z.uuid(),
  name: z.string(),
  plan: z.enum(plans),
  settings: z.record(z.string(), z.string()),
  created_at: z.string(),
  modified_at: z.string().optional(),
  modified_by: z.string().optional(),
});

/** `whsec_<base64 of 32 bytes>`, as Standard Webhooks has it (decisions.md §10). */
export const webhookSecret = z.object({ secret: z.string() });

export const usageReport = z.object({
  token_report: z.object({
    included_monthly_active_tokens: z.int().optional(),
    monthly_active_tokens: z.int(),
    total_tokens: z.int(),
    metrics_by_type: z.record(
      z.string(),
      z.object({ count: z.int(), last_created_at: z.string().optional() }),
    ),
  }),
});

export const session = z.object({ session_key: z.string(), nonce: z.string(), expires_at: z.string() });
export const authorizeSessionBody = z.object({
  nonce: text(1, 200),
  permissions: optional(z.array(permissionName).max(50)),
  rules: optional(accessRules),
  expires_at: optional(z.iso.datetime({ offset: true, local: true })),
});

export const transaction = z.object({
  id: z.uuid(),
  created_at: z.string(),
  created_by: z.string(),
  expires_at: z.string(),
});
