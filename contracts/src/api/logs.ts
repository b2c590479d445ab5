import { z } from 'zod';
import { transforms } from '../permissions.ts';
import { text } from '../text.ts';
import { page, paging } from './paging.ts';

export const entityTypes = [
  'application',
  'bank',
  'card',
  'log',
  'proxy',
  'reactor',
  'session',
  'tenant',
  'token',
  'transaction',
] as const;
export type EntityType = (typeof entityTypes)[number];

/** What an entry tells of (rules.md §11; `export` is this vault's own: tokens left it by `vault tokens export`). */
export const logOperations = [
  'authenticate',
  'authorize',
  'commit',
  'create',
  'delete',
  'denied',
  'expire',
  'export',
  'invoke',
  'list',
  'purge',
  'read',
  'regenerate',
  'rollback',
  'search',
  'update',
  'use',
] as const;
export type LogOperation = (typeof logOperations)[number];

/** What the log calls a token of this type (rules.md §11). */
export const entityTypeOfToken = (tokenType: string): EntityType =>
  tokenType === 'card' || tokenType === 'bank' ? tokenType : 'token';

/** RFC 3339 or a plain date, which means 00:00 UTC (rules.md §11). */
const moment = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })])
  .transform(
    (value) => new Date(/T.*(Z|[+-]\d\d:?\d\d)$/i.test(value) || !value.includes('T') ? value : `${value}Z`),
  );

export const listLogsQuery = z.object({
  entity_type: text(1, 50).optional(),
  entity_id: text(1, 400).optional(),
  actor_id: text(1, 200).optional(),
  operation: z.enum(logOperations).optional(),
  /** What was shown. */
  transform: z.enum(transforms).optional(),
  /** The id of an operation of this interface, such as `getToken`. */
  request: text(1, 100).optional(),
  trace_id: text(1, 200).optional(),
  start_date: moment.optional(),
  end_date: moment.optional(),
  ...paging,
});

export const logEntry = z.object({
  tenant_id: z.uuid(),
  actor_id: z.string().optional(),
  actor_type: z.string().optional(),
  entity_type: z.string(),
  entity_id: z.string().optional(),
  operation: z.string(),
  transform: z.enum(transforms).optional(),
  request: z.string().optional(),
  trace_id: z.string().optional(),
  message: z.string(),
  created_at: z.string(),
});
export type LogEntry = z.infer<typeof logEntry>;
export const logPage = page(logEntry);
export const entityTypeList = z.array(z.object({ display_name: z.string(), value: z.string() }));
