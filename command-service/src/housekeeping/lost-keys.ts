import { streams, type SystemTask } from '@token-vault/contracts';
import { keyIdOf, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Clock, RequestContext } from '@token-vault/operations';
import { execute, type Decider } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { proxyDecider } from '../proxies/decider.ts';
import type { ProxyState } from '../proxies/state.ts';
import { reactorDecider } from '../reactors/decider.ts';
import type { ReactorState } from '../reactors/state.ts';
import { tenantDecider } from '../tenants/decider.ts';
import { changeToken, loadToken } from '../tokens/change.ts';
import { tokenDecider } from '../tokens/decider.ts';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';
import { partsOf } from './entity.ts';

export interface LostKey {
  readonly tenantId: string;
  readonly keyId: string;
  /** The entity that the key belonged to, e.g. `token:<id>`. */
  readonly entity: string;
}

/**
 * Records erasures that the log does not hold, because they came after the backup from which the log was restored.
 */
export interface LostKeys {
  /**
   * Ends the token, the cvc, the reactor or the proxy that the key opened, as its deletion would have. True when the log had no
   * record of it. False when it had one, or when the key belonged to something that ends by itself.
   */
  record(key: LostKey): Promise<boolean>;
  /**
   * Records the deletion of a tenant whose keys are destroyed. False when the log has that record or does not know
   * the tenant.
   */
  recordTenant(tenantId: string): Promise<boolean>;
}

interface LostConfiguration {
  readonly store: EventStore;
  readonly context: RequestContext;
  readonly keyId: string;
}

/** Deletes the reactor or the proxy whose configuration the key opened. */
async function endConfigured<State extends ReactorState | ProxyState>(
  { store, context, keyId }: LostConfiguration,
  stream: string,
  decider: Decider<State, { readonly kind: 'delete' }>,
): Promise<boolean> {
  const { position } = await execute({
    store,
    stream,
    decider: {
      ...decider,
      decide: (state) =>
        state.kind === 'active' && keyIdOf(state.details.configuration) === keyId
          ? decider.decide(state, { kind: 'delete' })
          : [],
    },
    command: undefined,
    event: context.event.bind(context),
  });
  return position !== undefined;
}

async function endTenant(store: EventStore, tenantId: string, context: RequestContext): Promise<boolean> {
  const { position } = await execute({
    store,
    stream: streams.tenant(tenantId),
    decider: {
      ...tenantDecider,
      decide: (state) => (state.kind === 'active' ? tenantDecider.decide(state, { kind: 'delete' }) : []),
    },
    command: undefined,
    event: context.event.bind(context),
  });
  return position !== undefined;
}

/** The log names `task` as the actor. No key is changed. */
export function createLostKeys(options: {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes' | 'destroyKeys'>;
  readonly clock: Clock;
  readonly task: SystemTask;
}): LostKeys {
  const { store, keyRing, clock, task } = options;
  const outcomes = createTransactionOutcomes(store, clock);

  async function endToken(tenantId: string, tokenId: string, keyId: string): Promise<boolean> {
    const context = systemContext(tenantId, task, clock);
    // Open transactions are not waited for: their writes to the token cannot be opened either.
    const { position } = await changeToken(
      { store, keyRing },
      {
        tenantId,
        load: () => loadToken({ store, outcomes }, tokenId, context),
        decide: ({ state }) => ({
          facts: tokenDecider.decide(state, { kind: 'lose-key', keyId, now: context.now }),
        }),
      },
    );
    return position !== undefined;
  }

  return {
    async record(key) {
      const { tenantId, keyId, entity } = key;
      const { kind, id } = partsOf(entity);
      if (kind === 'token') return endToken(tenantId, id, keyId);
      const work = { store, context: systemContext(tenantId, task, clock), keyId };
      if (kind === 'reactor') return endConfigured(work, streams.reactor(tenantId, id), reactorDecider);
      if (kind === 'proxy') return endConfigured(work, streams.proxy(tenantId, id), proxyDecider);
      return false;
    },

    recordTenant: (tenantId) => endTenant(store, tenantId, systemContext(tenantId, task, clock)),
  };
}
