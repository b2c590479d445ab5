import { z } from 'zod';
import { defineEvent, unchanged } from './registry.ts';
import { storedKeys } from './application.ts';
import { requiredSignature, sealedValue } from './sealed.ts';

const proxyId = z.uuid();
const content = {
  proxy_id: proxyId,
  name: z.string(),
  /** Scheme, host, port and base path, without a slash at the end. */
  destination: z.string(),
  /** Where the code of its transforms may send requests besides. */
  destinations: z.array(z.string()),
  /** Code that changes each request, and each answer. */
  request_code: z.string().optional(),
  response_code: z.string().optional(),
  /** False: a key of the proxy is enough to use it. */
  require_auth: z.boolean(),
  /** Sealed JSON object of configuration names and values, which are credentials of third parties. */
  configuration: sealedValue,
  application_id: z.uuid().optional(),
  signature: requiredSignature,
};

export const ProxyCreated = defineEvent('ProxyCreated', z.object(content));
export const ProxyUpdated = defineEvent('ProxyUpdated', z.object(content));
/** `keys` has all keys of the proxy after the change. */
export const ProxyKeyAdded = defineEvent(
  'ProxyKeyAdded',
  z.object({ proxy_id: proxyId, key_id: z.uuid(), keys: storedKeys, signature: requiredSignature }),
);
export const ProxyKeyDeleted = defineEvent(
  'ProxyKeyDeleted',
  z.object({ proxy_id: proxyId, key_id: z.uuid(), keys: storedKeys, signature: requiredSignature }),
);
export const ProxyDeleted = defineEvent(
  'ProxyDeleted',
  z.object({ proxy_id: proxyId, key_ids: z.array(z.uuid()) }),
);

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
    /** Version 2 added the configured proxy, and its own key by which the request came. */
    proxy_id: z.uuid().optional(),
    key_id: z.uuid().optional(),
  }),
  [unchanged],
);

/** How it ended. Absent when the vault ended before: whether the destination was reached is not known then. */
export const ProxyAnswered = defineEvent(
  'ProxyAnswered',
  z.object({
    invocation_id: z.uuid(),
    /** The status that the destination answered; absent when it did not answer. */
    status: z.int().optional(),
    /** Bytes of the bodies. */
    request_bytes: z.int().min(0),
    response_bytes: z.int().min(0),
    duration_ms: z.int().min(0),
    /** Why the exchange was not completed, in a word of ours; absent when it was. */
    failure: z.string().optional(),
    /** Version 2 added the configured proxy. */
    proxy_id: z.uuid().optional(),
  }),
  [unchanged],
);

export const proxyEvents = [
  ProxyCreated,
  ProxyUpdated,
  ProxyKeyAdded,
  ProxyKeyDeleted,
  ProxyDeleted,
  ProxyInvoked,
  ProxyAnswered,
] as const;
