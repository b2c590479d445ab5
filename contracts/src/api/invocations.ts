import { z } from 'zod';
import { consoleLine } from '../events/run-console.ts';
import { page, paging } from './paging.ts';

export const invocationStates = ['waiting', 'running', 'succeeded', 'failed'] as const;
export type InvocationRunState = (typeof invocationStates)[number];
export const deliveryStates = ['due', 'delivered', 'given-up'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** The parameter is not called `id`: the executor takes `id` for the id of the operation's entity, which is the reactor. */
export const invocationParams = z.object({ invocation_id: z.uuid().toLowerCase() });

export const listInvocationsQuery = z.object({
  reactor_id: z.uuid().toLowerCase().optional(),
  state: z.enum(invocationStates).optional(),
  ...paging,
});

const attempt = z.object({
  number: z.int(),
  attempted_at: z.string(),
  /** The class of the failure, one of the vault's codes, such as `refused-address` or `status 500`. Absent when it succeeded. */
  reason: z.string().optional(),
});

/** One run of a reactor, from its events. Contains no arguments and no result. */
export const invocation = z.object({
  id: z.uuid(),
  tenant_id: z.uuid(),
  reactor: z.object({ id: z.uuid() }),
  mode: z.enum(['sync', 'async']),
  state: z.enum(invocationStates),
  /** The application or session that asked for the run. */
  invoked_by: z.string(),
  invoked_at: z.string(),
  started_at: z.string().optional(),
  ended_at: z.string().optional(),
  /** From the start to the end, including the wait for a process of the sandbox. */
  duration_ms: z.int().optional(),
  /** `class`: one of the vault's codes, such as `timed-out`; `failed` when the code threw an error. */
  error: z.object({ status: z.int(), class: z.string() }).optional(),
  delivery: z
    .object({
      state: z.enum(deliveryStates),
      /** When the next attempt is due. */
      next_at: z.string().optional(),
      attempts: z.array(attempt),
    })
    .optional(),
});
/** A run with the lines that its code printed, which are kept for an hour (ADR 46). */
export const shownInvocation = invocation.extend({
  console: z
    .object({
      lines: z.array(consoleLine),
      /** Lines were dropped because there were too many. */
      is_cut: z.boolean(),
      kept_until: z.string(),
    })
    .optional(),
  /** Why the lines are not shown to this caller. Absent when the lines are shown or when no lines are kept. */
  console_withheld: z.string().optional(),
});
export type ShownInvocation = z.infer<typeof shownInvocation>;
export type Invocation = z.infer<typeof invocation>;
export const invocationPage = page(invocation);
