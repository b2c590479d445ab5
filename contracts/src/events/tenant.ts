import { z } from 'zod';
import { plans } from '../api/tenants.ts';
import { defineEvent } from './registry.ts';
import { sealedValue } from './sealed.ts';

const settings = z.record(z.string(), z.string());

export const TenantCreated = defineEvent(
  'TenantCreated',
  z.object({ tenant_id: z.uuid(), name: z.string(), plan: z.enum(plans), settings }),
);
export const TenantUpdated = defineEvent(
  'TenantUpdated',
  z.object({ tenant_id: z.uuid(), name: z.string(), settings }),
);
export const TenantPlanChanged = defineEvent(
  'TenantPlanChanged',
  z.object({ tenant_id: z.uuid(), plan: z.enum(plans) }),
);
export const TenantDeleted = defineEvent('TenantDeleted', z.object({ tenant_id: z.uuid() }));
export const TenantWebhookSecretRotated = defineEvent(
  'TenantWebhookSecretRotated',
  z.object({ tenant_id: z.uuid(), secret: sealedValue }),
);

export const tenantEvents = [
  TenantCreated,
  TenantUpdated,
  TenantPlanChanged,
  TenantDeleted,
  TenantWebhookSecretRotated,
] as const;
