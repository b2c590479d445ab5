import { z } from 'zod';
import { parseDestinations } from '../destinations.ts';
import { isUuid } from '../ids.ts';
import { permissionName } from '../permissions.ts';
import { boundedMap, expiry, optional, text } from '../text.ts';
import { accessRules } from './access-rules.ts';
import { entityName } from './applications.ts';
import { wholeNumber } from './paging.ts';

export const plans = ['standard', 'enterprise'] as const;
export type Plan = (typeof plans)[number];

export const tenantSettings = boundedMap(text(1, 100), text(0, 1000), 50);

/** The limit of misses per application and minute, of `data:` searches and of deduplication together (rules.md §6); 0 means no limit. */
export const dataMissesPerMinuteSetting = 'data_misses_per_minute';
export const defaultDataMissesPerMinute = 100;
/**
 * `"true"`: searches and deduplications that find something count too, and so do expressions with filters that give a value, unless the
 * caller sees every token in plaintext. A caller that may create tokens could otherwise make each guess a hit, by a token of its own with the
 * guessed data.
 */
export const countDataHitsSetting = 'count_data_hits';
/** Whether a setting is a number that the vault accepts. Checked when the setting is written, not when events are read. */
export const isCount = (value: string): boolean => /^(0|[1-9]\d{0,6})$/.test(value);

/**
 * Where requests of proxies may go. Without this setting, proxies of a tenant on the enterprise plan may send no requests; those of other
 * tenants may send requests to any server.
 */
export const proxyDestinationsSetting = 'proxy_destinations';
const ofApplication = `${proxyDestinationsSetting}.`;
/** Where requests of proxies may go by the rights of one application, within the list of the tenant. An empty list allows no server. */
export const applicationDestinationsSetting = (applicationId: string): string =>
  ofApplication + applicationId;

/** The URL to which reveals by rules with `break_glass` are reported (docs/reference/reasons.md). */
export const securityWebhookSetting = 'security_webhook_url';

/** Plain http is accepted here, as for `callback_url`: the egress broker allows it only to the CIDRs of `VAULT_EGRESS_ALLOW`. */
const isWebhookUrl = (value: string): boolean => {
  const url = URL.parse(value);
  return (
    url !== null && ['https:', 'http:'].includes(url.protocol) && url.username === '' && url.password === ''
  );
};

const knownSettings: readonly string[] = [
  dataMissesPerMinuteSetting,
  countDataHitsSetting,
  securityWebhookSetting,
  'fingerprint_tokens',
  'deduplicate_tokens',
];

/** A setting in another case, or with hyphens or spaces, would have no effect. */
function faultOfName(name: string): string | undefined {
  const folded = name.trim().toLowerCase().replaceAll(/[\s-]/g, '_');
  return folded !== name && knownSettings.includes(folded) ? `must have the name ${folded}` : undefined;
}

/** A list under a misspelt name or id would restrict nothing: `proxy_destination`, `proxyDestinations`, `proxy-destinations`. */
function faultOfDestinations(name: string, value: string): string | undefined {
  const letters = name.toLowerCase().replaceAll(/[^a-z]/g, '');
  if (!letters.startsWith('proxydestination')) return undefined;
  const id = name.startsWith(ofApplication) ? name.slice(ofApplication.length) : '';
  const isOfApplication = isUuid(id) && id === id.toLowerCase();
  if (name !== proxyDestinationsSetting && !isOfApplication)
    return `must be ${proxyDestinationsSetting}, or ${ofApplication} and the id of an application`;
  return parseDestinations(value) === undefined
    ? 'must be https://host, https://host:port or https://*.example.com, separated by commas'
    : undefined;
}

const checkedSettings = tenantSettings
  .refine((settings) => isCount(settings[dataMissesPerMinuteSetting] ?? '0'), {
    path: [dataMissesPerMinuteSetting],
    message: 'must be a number from 0 to 9999999 as text',
  })
  .refine((settings) => ['true', 'false'].includes(settings[countDataHitsSetting] ?? 'false'), {
    path: [countDataHitsSetting],
    message: 'must be "true" or "false"',
  })
  .refine(({ [securityWebhookSetting]: url }) => url === undefined || url === '' || isWebhookUrl(url), {
    path: [securityWebhookSetting],
    message: 'must be an https URL without user and password',
  })
  .superRefine((settings, context) => {
    for (const [name, value] of Object.entries(settings)) {
      const message = faultOfName(name) ?? faultOfDestinations(name, value);
      if (message !== undefined) context.addIssue({ code: 'custom', path: [name], message });
    }
  });
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

/** The maximum number of secrets of a tenant that sign at the same time. */
export const maxWebhookSecrets = 5;

export type Tenant = z.infer<typeof tenant>;

/** `whsec_<base64 of 32 bytes>`, the format of Standard Webhooks (rules.md §10). */
export const webhookSecret = z.object({ secret: z.string() });

/** The maximum number of months of one report: for each month the report reads the entries of the log. */
const mostMonths = 12;
export const usageReportQuery = z.object({
  /** The number of months to count, including the present month. */
  months: wholeNumber(1, mostMonths).optional(),
});

export const usageReport = z.object({
  token_report: z.object({
    included_monthly_active_tokens: z.int().optional(),
    monthly_active_tokens: z.int(),
    total_tokens: z.int(),
    /** Oldest first, in months of UTC. Present when the request has `months`. */
    months: z
      .array(z.object({ month: z.string().regex(/^\d{4}-\d\d$/), monthly_active_tokens: z.int() }))
      .optional(),
    metrics_by_type: z.record(
      z.string(),
      z.object({ count: z.int(), last_created_at: z.string().optional() }),
    ),
  }),
});

export type UsageReport = z.infer<typeof usageReport>;

export const session = z.object({ session_key: z.string(), nonce: z.string(), expires_at: z.string() });
export const authorizeSessionBody = z.object({
  nonce: text(1, 200),
  permissions: optional(z.array(permissionName).max(50)),
  rules: optional(accessRules),
  expires_at: optional(expiry),
});

export const transaction = z.object({
  id: z.uuid(),
  created_at: z.string(),
  created_by: z.string(),
  expires_at: z.string(),
});
