import { streams } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { ApplicationReplay, Clock } from '@token-vault/service-kit';
import { load } from '../aggregates/decider.ts';
import { applicationDecider, requireActive, requireHeldBy } from './decider.ts';
import { makerOf } from './handlers.ts';

/** The answer of a create, or of a new key, holds the key. A caller is shown it again only if it could be given such a key now. */
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
