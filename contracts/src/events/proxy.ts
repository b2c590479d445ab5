import { z } from 'zod';
import { defineEvent } from './registry.ts';

/**
 * A request is about to leave for another server: durable, together with the record of its tokens (`TokensRead`), before its first
 * byte does. Path, query, headers and body are not told: they may hold data.
 */
export const ProxyInvoked = defineEvent(
  'ProxyInvoked',
  z.object({
    invocation_id: z.uuid(),
    /** Scheme, host and port, such as `https://api.example.com:8443`; without the port when it is the scheme's own. */
    destination: z.string(),
    method: z.string(),
    token_ids: z.array(z.string()),
  }),
);

/** How it ended. Absent when the vault ended before: whether the destination was reached is not known then. */
export const ProxyAnswered = defineEvent(
  'ProxyAnswered',
  z.object({
    invocation_id: z.uuid(),
    /** What the destination answered; absent when it did not. */
    status: z.int().optional(),
    /** Bytes of the bodies. */
    request_bytes: z.int().min(0),
    response_bytes: z.int().min(0),
    duration_ms: z.int().min(0),
    /** Why the exchange was not completed, in a word of ours; absent when it was. */
    failure: z.string().optional(),
  }),
);

export const proxyEvents = [ProxyInvoked, ProxyAnswered] as const;
