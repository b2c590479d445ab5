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

/** The operations that an entry of the log can name (rules.md §11). `export` is this vault's own: `vault tokens export` took tokens out. */
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

/** The entity type that the log uses for a token of this type (rules.md §11). */
export const entityTypeOfToken = (tokenType: string): EntityType =>
  tokenType === 'card' || tokenType === 'bank' ? tokenType : 'token';

/** An RFC 3339 time, or a plain date, which means 00:00 UTC (rules.md §11). */
const moment = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })])
  .transform(
    (value) => new Date(/T.*(Z|[+-]\d\d:?\d\d)$/i.test(value) || !value.includes('T') ? value : `${value}Z`),
  );

const logFilters = {
  entity_type: text(1, 50).optional(),
  entity_id: text(1, 400).optional(),
  actor_id: text(1, 200).optional(),
  operation: z.enum(logOperations).optional(),
  /** How the data was shown. */
  transform: z.enum(transforms).optional(),
  /** The id of an operation of this interface, such as `getToken`. */
  request: text(1, 100).optional(),
  trace_id: text(1, 200).optional(),
  /** The reason that the caller gave, exactly. */
  reason: text(1, 200).optional(),
  start_date: moment.optional(),
  end_date: moment.optional(),
};
export const listLogsQuery = z.object({ ...logFilters, ...paging });

export type LogFilterQuery = Omit<z.output<typeof listLogsQuery>, keyof typeof paging>;

export const logIntervals = ['minute', 'hour', 'day'] as const;
export type LogInterval = (typeof logIntervals)[number];
export const logGroups = ['actor', 'operation', 'entity_type', 'transform', 'reason'] as const;
export type LogGroup = (typeof logGroups)[number];

export const summarizeLogsQuery = z.object({
  ...logFilters,
  interval: z.enum(logIntervals),
  group_by: z.enum(logGroups).optional(),
});

export const logSummary = z.object({
  interval: z.enum(logIntervals),
  group_by: z.enum(logGroups).optional(),
  /** The sum of all counts: what `GET /logs` has as `total_items` for the same filters. */
  total_items: z.int(),
  data: z.array(
    z.object({
      /** The start of the interval, UTC. */
      start: z.string(),
      /** The actor, operation, … as `group_by` says. Absent for entries that have none. */
      value: z.string().optional(),
      count: z.int(),
    }),
  ),
});
export type LogSummary = z.infer<typeof logSummary>;

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
  reason: z.string().optional(),
  message: z.string(),
  created_at: z.string(),
});
export type LogEntry = z.infer<typeof logEntry>;
export const logPage = page(logEntry);
export const entityTypeList = z.array(z.object({ display_name: z.string(), value: z.string() }));
