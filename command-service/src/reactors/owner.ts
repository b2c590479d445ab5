import { streams } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { AnswerOwner } from '@token-vault/operations';
import { load } from '../aggregates/decider.ts';
import { entityOf } from './configuration.ts';
import { reactorDecider } from './decider.ts';

/**
 * Answers that may hold the configuration of a reactor are destroyed with the reactor: its deletion destroys every
 * key of the entity.
 */
export function reactorOwner(store: EventStore, tenantId: string, reactorId: string): AnswerOwner {
  return {
    entity: entityOf('reactor', reactorId),
    async isThere() {
      const { state } = await load(store, streams.reactor(tenantId, reactorId), reactorDecider);
      return state.kind === 'active';
    },
  };
}
