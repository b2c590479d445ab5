import { streams, ValidationError, type ApplicationType } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { load } from '../aggregates/decider.ts';
import { applicationDecider } from '../applications/decider.ts';

/** The application of a reactor as answers show it (rules.md §10). */
export interface ReferencedApplication {
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
}

const field = 'application.id';

/**
 * The application whose rights the code of a reactor gets. It must belong to this tenant, be active, and be public or
 * private (interface.md, Reactor).
 * @throws ValidationError
 */
export async function referencedApplication(
  store: EventStore,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ReferencedApplication> {
  const { state } = await load(store, streams.application(tenantId, id), applicationDecider);
  if (state.kind !== 'active') throw ValidationError.of(field, 'is not an application of this tenant');
  const { name, type, expiresAt } = state.details;
  if (expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime()) {
    throw ValidationError.of(field, 'is not an application of this tenant');
  }
  if (type === 'management') throw ValidationError.of(field, 'must be a public or a private application');
  return { id, name, type };
}
