import { idFrom, isUuid } from './ids.ts';
import type { EventMetadata } from './metadata.ts';

/**
 * The vault itself as an actor: for each of its tasks the UUID by which answers and the log name it (docs/reference/log.md).
 * Events carry the task. Never change one: clients filter by it.
 */
export const systemActors = {
  operator: '5f3c0000-7a1e-4000-8000-000000000001',
  import: '5f3c0000-7a1e-4000-8000-000000000002',
  'reactor-runner': '5f3c0000-7a1e-4000-8000-000000000003',
  'token-expiry': '5f3c0000-7a1e-4000-8000-000000000004',
  'cvc-purge': '5f3c0000-7a1e-4000-8000-000000000005',
  'application-expiry': '5f3c0000-7a1e-4000-8000-000000000006',
  'session-expiry': '5f3c0000-7a1e-4000-8000-000000000007',
  'transaction-expiry': '5f3c0000-7a1e-4000-8000-000000000008',
  audit: '5f3c0000-7a1e-4000-8000-000000000009',
  restore: '5f3c0000-7a1e-4000-8000-00000000000a',
  upgrade: '5f3c0000-7a1e-4000-8000-00000000000b',
  'security-alerts': '5f3c0000-7a1e-4000-8000-00000000000c',
  'console-expiry': '5f3c0000-7a1e-4000-8000-00000000000d',
  'key-sweep': '5f3c0000-7a1e-4000-8000-00000000000e',
} as const;
export type SystemTask = keyof typeof systemActors;
const idByTask: Readonly<Record<string, string>> = systemActors;

/** The part of an event's metadata that says which actor caused the event. */
export type Caused = Pick<EventMetadata, 'actor' | 'application_id'>;

/** The actor of an event as the log names it: always a UUID, also for a task that this release does not know. */
export function actorIdOf({ actor }: Caused): string {
  if (actor.kind !== 'system' || isUuid(actor.id)) return actor.id;
  return idByTask[actor.id] ?? idFrom('system actor', actor.id);
}

/**
 * The id that `created_by` and `modified_by` show. For an application: its own id. For a session: the id of the application that authorised
 * the session. For a task of the vault: the task's UUID. An event of a session that was stored before `application_id` existed shows the
 * session's id.
 */
export const authorOf = (caused: Caused): string => caused.application_id ?? actorIdOf(caused);
