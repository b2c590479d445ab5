import { z } from 'zod';
import { logOperations, type EntityType } from '../names.ts';
import { transforms } from '../permissions.ts';
import { text } from '../text.ts';
import { page, paging } from './paging.ts';

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
  /** The sum of all counts, equal to `total_items` of `GET /logs` with the same filters. */
  total_items: z.int(),
  data: z.array(
    z.object({
      /** The start of the interval, UTC. */
      start: z.string(),
      /** The value of the field that `group_by` names, such as the actor. Absent for entries without a value. */
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

export const verifyLogQuery = z.object({
  /** The verification ends at the first checkpoint after this time. By default the whole log is verified. */
  end_date: moment.optional(),
  /** `cursor` of the previous answer. */
  cursor: z
    .string()
    .regex(/^\d{1,18}\.\d{1,9}\.[\w-]{86}$/, 'is not a cursor of this operation')
    .optional(),
});

/** One part of a verification of the log (docs/reference/console.md). */
export const logVerification = z.object({
  /** Differences from the signed checkpoints, by position in the log; 1,000 at most. */
  findings: z.array(z.object({ position: z.string(), problem: z.string() })),
  /** How many further differences this part found; absent when `findings` has all. */
  more_findings: z.int().optional(),
  /** Number of events of the tenant that were compared with signed checkpoints. */
  events: z.int(),
  checkpoints: z.int(),
  /** Number of events of the tenant that no checkpoint covers yet. */
  unsigned_events: z.int(),
  /** The position of the log up to which it was verified. */
  through: z.string(),
  /** When the last of the checkpoints was signed; absent when there was none in this part. */
  signed_at: z.string().optional(),
  /** The parameter of the request for the next part; absent when the verification is complete. */
  cursor: z.string().optional(),
});
export type LogVerification = z.infer<typeof logVerification>;
