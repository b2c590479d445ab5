import { z } from 'zod';

export const actorKinds = ['application', 'session', 'system', 'user'] as const;
export type ActorKind = (typeof actorKinds)[number];

/** The actor that caused an event. `id` is an application, session or user id; a `system` actor has the name of its task (actors.ts). */
export interface Actor {
  readonly kind: ActorKind;
  readonly id: string;
}

/** The metadata of every event. `occurred_at` is RFC 3339 in UTC, from the injected clock. */
export const eventMetadata = z.strictObject({
  tenant_id: z.uuid(),
  actor: z.strictObject({ kind: z.enum(actorKinds), id: z.string() }),
  trace_id: z.string(),
  correlation_id: z.string(),
  causation_id: z.string().optional(),
  occurred_at: z.iso.datetime(),
  transaction_id: z.uuid().optional(),
  /**
   * Set on an event that is enlisted in a transaction: the revision of the last event of its stream that counts without the transaction, -1
   * if there is none. A reader that finds that this event does not count continues at that revision.
   */
  counts_after: z.int().min(-1).optional(),
  /** The operation of the table that the caller requested (contracts/src/operations). */
  request: z.string().optional(),
  /** Set on events of a session: the application that authorised it. `created_by` names this application (rules.md §11). */
  application_id: z.uuid().optional(),
  /** The reason that the caller gave for the request (SVC-REASON). */
  reason: z.string().optional(),
});
export type EventMetadata = z.infer<typeof eventMetadata>;
