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
  /** Further servers to which the code of the transforms may send requests. */
  destinations: z.array(z.string()),
  /** Code that changes each request, and each answer. */
  request_code: z.string().optional(),
  response_code: z.string().optional(),
  /** False: a key of the proxy is enough to use the proxy. */
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
 * Recorded before a request is sent to another server: durable, together with the record of its tokens (`TokensRead`), before its first
 * byte is sent. Does not contain the path, query, headers and body, which may hold data.
 */
export const ProxyInvoked = defineEvent(
  'ProxyInvoked',
  z.object({
    invocation_id: z.uuid(),
    /** Scheme, host and port, such as `https://api.example.com:8443`; without the port when it is the default port of the scheme. */
    destination: z.string(),
    method: z.string(),
    token_ids: z.array(z.string()),
    /** Version 2 added the configured proxy, and the key of the proxy that the request used. */
    proxy_id: z.uuid().optional(),
    key_id: z.uuid().optional(),
  }),
  [unchanged],
);

/**
 * The end of the exchange. There is no such event when the vault stopped before; then it is unknown whether the destination was reached.
 */
export const ProxyAnswered = defineEvent(
  'ProxyAnswered',
  z.object({
    invocation_id: z.uuid(),
    /** The status of the destination's answer; absent when there was no answer. */
    status: z.int().optional(),
    /** Bytes of the bodies. */
    request_bytes: z.int().min(0),
    response_bytes: z.int().min(0),
    duration_ms: z.int().min(0),
    /** The reason why the exchange was not completed, one of the vault's codes; absent when it was completed. */
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
