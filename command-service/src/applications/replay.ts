import { streams } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { ApplicationReplay, Clock } from '@token-vault/operations';
import { load } from '../aggregates/decider.ts';
import { applicationDecider, requireActive } from './decider.ts';
import { makerOf, requireHeldBy } from './maker.ts';

/**
 * The answer of a create, or of a new key, holds the key. The caller is shown it again only when its present rights
 * allow it to make such a key.
 */
export function createApplicationReplay({
  store,
  clock,
}: {
  readonly store: EventStore;
  readonly clock: Clock;
}): ApplicationReplay {
  return {
    async require(id, context) {
      const stream = streams.application(context.principal.tenant.id, id);
      const { state } = await load(store, stream, applicationDecider);
      const { type, permissions } = requireActive(state, clock.now());
      requireHeldBy(makerOf(context), type, permissions);
    },
  };
}
