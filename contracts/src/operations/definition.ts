import type { z } from 'zod';
import type { EntityType } from '../api/logs.ts';
import type { Permission } from '../permissions.ts';
import type { ReadModelName } from '../read-models.ts';

/** One operation of the HTTP interface, stated once. Routing, validation, gateway, OpenAPI and tests derive from it. */
export interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path with parameters in braces, as OpenAPI writes them. */
  readonly path: string;
  readonly service: 'command' | 'query';
  /** Needed by the caller; null when any valid key will do. */
  readonly permission: Permission | null;
  /** The whole operation needs the enterprise plan. */
  readonly plan?: 'enterprise';
  /** What the operation is about, for the log of refusals. */
  readonly entity: EntityType;
  readonly summary: string;
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** PATCH bodies must be sent as this type (415 otherwise). */
  readonly bodyType?: 'application/merge-patch+json';
  readonly success: number;
  readonly response?: z.ZodType;
  /** Read models that its answer comes from; those that callers are made of go without saying. Of every query. */
  readonly answersFrom?: readonly ReadModelName[];
  /** It may take rights away: confirmed only when every process goes by it (rules.md §6). */
  readonly isRevocation?: true;
  /** What it does shows in the log alone, whose readers wait for it: the answer need not. */
  readonly isLoggedOnly?: true;
  /** Takes part in a transaction when SVC-TRANSACTION-ID is sent. */
  readonly isEnlistable?: true;
}

export type ParamsOf<O> = O extends { readonly params: infer S extends z.ZodType } ? z.output<S> : undefined;
export type QueryOf<O> = O extends { readonly query: infer S extends z.ZodType } ? z.output<S> : undefined;
export type BodyOf<O> = O extends { readonly body: infer S extends z.ZodType } ? z.output<S> : undefined;
