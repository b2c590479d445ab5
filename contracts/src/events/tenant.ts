import { z } from 'zod';
import { plans } from '../api/tenants.ts';
import { defineEvent, unchanged } from './registry.ts';
import { moment, sealedValue, requiredSignature, signature } from './sealed.ts';

const settings = z.record(z.string(), z.string());

export const TenantCreated = defineEvent(
  'TenantCreated',
  z.object({ tenant_id: z.uuid(), name: z.string(), plan: z.enum(plans), settings, signature }),
  [unchanged],
);
export const TenantUpdated = defineEvent(
  'TenantUpdated',
  z.object({ tenant_id: z.uuid(), name: z.string(), settings, signature }),
  [unchanged],
);
export const TenantPlanChanged = defineEvent(
  'TenantPlanChanged',
  z.object({ tenant_id: z.uuid(), plan: z.enum(plans), signature }),
  [unchanged],
);
/** Signs a tenant of a release that did not sign tenants. Its applications are signed before this event, its tokens after it. */
export const TenantSigned = defineEvent(
  'TenantSigned',
  z.object({ tenant_id: z.uuid(), accepts_unsigned: z.boolean(), signature: requiredSignature }),
);
export const TenantDeleted = defineEvent('TenantDeleted', z.object({ tenant_id: z.uuid() }));
export const TenantWebhookSecretRotated = defineEvent(
  'TenantWebhookSecretRotated',
  z.object({
    tenant_id: z.uuid(),
    secret: sealedValue,
    /** Version 2 added the earlier secrets, newest first. They sign too until they expire. */
    earlier: z.array(z.object({ secret: sealedValue, expires_at: moment })).optional(),
  }),
  [unchanged],
);

export const tenantEvents = [
  TenantCreated,
  TenantUpdated,
  TenantPlanChanged,
  TenantSigned,
  TenantDeleted,
  TenantWebhookSecretRotated,
] as const;
