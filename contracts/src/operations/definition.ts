import type { z } from 'zod';
import type { EntityType } from '../names.ts';
import type { Permission } from '../permissions.ts';
import type { ReadModelName } from '../read-models/index.ts';
import type { Secret } from '../secret.ts';

/** One operation of the HTTP interface. Routing, validation, gateway, OpenAPI and tests derive from it. */
export interface Operation {
  /** `ANY`: all of `anyMethods`. */
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'ANY';
  /** Path with parameters in braces, as in OpenAPI. `{name*}` at its end is the rest of the path, with its slash; it may be empty. */
  readonly path: string;
  readonly service: 'command' | 'query' | 'proxy';
  /** The permission that the caller needs; null when any valid key is enough. */
  readonly permission: Permission | null;
  /** Where `permission` is null: a session of the console does the operation as its application that may hold this one. */
  readonly consolePermission?: Permission;
  /** The whole operation requires the enterprise plan. */
  readonly plan?: 'enterprise';
  /** The entity type of the operation, for the record of refusals. */
  readonly entity: EntityType;
  readonly summary: string;
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** PATCH bodies must have this media type (415 otherwise). */
  readonly bodyType?: 'application/merge-patch+json';
  /** The handler gets a `RawRequest`, because query, headers and body are meant for another server. */
  readonly isRaw?: true;
  /** Also accepts a key of the proxy in the query (`?svc-proxy-key=`), and no key where the proxy needs none. */
  readonly takesProxyKeys?: true;
  readonly success: number;
  readonly response?: z.ZodType;
  /**
   * The read models that the handler reads; set for every query. The read models of authentication are always required and not listed.
   */
  readonly answersFrom?: readonly ReadModelName[];
  /** The operation may withdraw rights: its success is confirmed only when every process applies the withdrawal (rules.md §6). */
  readonly isRevocation?: true;
  /** The effect of the operation shows in the log only. Readers of the log wait for it, so the answer need not wait. */
  readonly isLoggedOnly?: true;
  /**
   * Success sets the cookie of the console, so the request must use an address for which a browser accepts the cookie
   * (docs/reference/console.md).
   */
  readonly setsCookie?: true;
  /** A page asks by it which session its cookie is of, so a request with the cookie need not name the session. */
  readonly tellsConsoleSession?: true;
  /** Takes part in a transaction when SVC-TRANSACTION-ID is sent. */
  readonly isEnlistable?: true;
}

export type ParamsOf<O> = O extends { readonly params: infer S extends z.ZodType } ? z.output<S> : undefined;
export type QueryOf<O> = O extends { readonly query: infer S extends z.ZodType } ? z.output<S> : undefined;
export type BodyOf<O> = O extends { readonly body: infer S extends z.ZodType }
  ? z.output<S>
  : O extends { readonly isRaw: true }
    ? RawRequest
    : undefined;

/** A request as it was received over HTTP. */
export interface RawRequest {
  readonly method: string;
  /** As it was sent. */
  readonly path: string;
  /** As it was sent, without the question mark; empty when there is none. */
  readonly query: string;
  /** As they were sent, in their order, repeated ones repeated. A character is a byte. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Secret<Uint8Array>;
  /** Aborts when the client has disconnected before its answer was complete. */
  readonly signal: AbortSignal;
}

/** Methods that are passed on to another server. CONNECT and TRACE concern the connection, and other methods are not in use. */
export const anyMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/**
 * Whether the body of a request is read. A POST that takes none refuses fields, because one that is ignored may have been meant for the query.
 */
export const readsBody = ({ method, body }: Pick<Operation, 'method' | 'body'>): boolean =>
  body !== undefined || method === 'POST';

/** The methods of an operation. */
export const methodsOf = ({ method }: Pick<Operation, 'method'>): readonly string[] =>
  method === 'ANY' ? anyMethods : [method];
