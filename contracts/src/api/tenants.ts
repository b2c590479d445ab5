import { z } from 'zod';
import { permissionName } from '../permissions.ts';
import { boundedMap, optional, text } from '../text.ts';
import { accessRules } from './access-rules.ts';
import { entityName } from './applications.ts';

export const plans = ['standard', 'enterprise'] as const;
export type Plan = (typeof plans)[number];

export const tenantSettings = boundedMap(text(1, 100), text(0, 1000), 50);

/** How many misses of `data:` searches and of deduplication one application may have in a minute (rules.md §6); 0: any number. */
export const dataMissesPerMinuteSetting = 'data_misses_per_minute';
export const defaultDataMissesPerMinute = 100;
/** What a setting that the vault reads as a number may be; checked where it is set, not where events are read. */
export const isCount = (value: string): boolean => /^(0|[1-9]\d{0,6})$/.test(value);

const checkedSettings = tenantSettings.refine(
  (settings) => isCount(settings[dataMissesPerMinuteSetting] ?? '0'),
  {
    path: [dataMissesPerMinuteSetting],
    message: 'must be a number from 0 to 9999999 as text',
  },
);
export const updateTenantBody = z.object({ name: entityName, settings: optional(checkedSettings) });

export const tenant = z.object({
  id: z.uuid(),
  name: z.string(),
  plan: z.enum(plans),
  settings: z.record(z.string(), z.string()),
  created_at: z.string(),
  modified_at: z.string().optional(),
  modified_by: z.string().optional(),
});

/** `whsec_<base64 of 32 bytes>`, as Standard Webhooks has it (rules.md §10). */
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
