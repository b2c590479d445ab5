import { z } from 'zod';

export const actorKinds = ['application', 'session', 'system', 'user'] as const;
export type ActorKind = (typeof actorKinds)[number];

/** Who caused an event. `id` is an application, session or user id; `system` actors name their task (actors.ts). */
export interface Actor {
  readonly kind: ActorKind;
  readonly id: string;
}

/** What every event carries besides its data. `occurred_at` is RFC 3339 in UTC, from the injected clock. */
export const eventMetadata = z.strictObject({
  tenant_id: z.uuid(),
  actor: z.strictObject({ kind: z.enum(actorKinds), id: z.string() }),
  trace_id: z.string(),
  correlation_id: z.string(),
  causation_id: z.string().optional(),
  occurred_at: z.iso.datetime(),
  transaction_id: z.uuid().optional(),
  /**
   * Of an event that is enlisted in a transaction: the revision of the last event of its stream that counts without the transaction,
   * -1 if none does. Who finds that it does not count goes on reading there.
   */
  counts_after: z.int().min(-1).optional(),
  /** The operation of the table that was asked for (contracts/src/operations). */
  request: z.string().optional(),
  /** Of what a session does: the application that authorised it, which `created_by` names (rules.md §11). */
  application_id: z.uuid().optional(),
});
export type EventMetadata = z.infer<typeof eventMetadata>;
