import { z } from 'zod';
import { defineEvent } from './registry.ts';
import { moment } from './sealed.ts';

/** `alert_id` is the id of the event that records the access (`break_glass` in TokensRead and TokensExported). */
const attempted = { alert_id: z.uuid(), attempt: z.int().min(1) };

/** The receiver at `security_webhook_url` accepted the webhook. */
export const AlertDelivered = defineEvent('AlertDelivered', z.object(attempted));
export const AlertAttemptFailed = defineEvent(
  'AlertAttemptFailed',
  z.object({ ...attempted, reason: z.string(), next_at: moment }),
);
/** The last attempt failed too, or the tenant has no `security_webhook_url`. */
export const AlertGivenUp = defineEvent('AlertGivenUp', z.object({ ...attempted, reason: z.string() }));

export const alertEvents = [AlertDelivered, AlertAttemptFailed, AlertGivenUp] as const;
