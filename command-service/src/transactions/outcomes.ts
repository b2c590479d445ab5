import { streams } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/service-kit';
import { execute, load } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { isOver, transactionDecider } from './decider.ts';
import type { TransactionState } from './state.ts';

export interface TransactionOutcomes {
  /** The transaction as it stands; one past its time is ended here and now, by an event, before anybody acts on that. */
  stateOf(tenantId: string, transactionId: string): Promise<TransactionState>;
}

const cacheSize = 10_000;

export function createTransactionOutcomes(store: EventStore, clock: Clock): TransactionOutcomes {
  /** Ended transactions never change again. */
  const ended = new Map<string, TransactionState>();

  async function read(tenantId: string, transactionId: string): Promise<TransactionState> {
    const stream = streams.transaction(tenantId, transactionId);
    const { state } = await load(store, stream, transactionDecider);
    if (!isOver(state, clock.now())) return state;
    const context = systemContext(tenantId, 'transaction-expiry', clock);
    const command = { kind: 'expire', id: transactionId, now: clock.now() } as const;
    await execute({
      store,
      stream,
      decider: transactionDecider,
      command,
      event: context.event.bind(context),
    });
    return (await load(store, stream, transactionDecider)).state;
  }

  return {
    async stateOf(tenantId, transactionId) {
      const key = `${tenantId}.${transactionId}`;
      const known = ended.get(key);
      if (known) return known;
      const state = await read(tenantId, transactionId);
      if (state.kind === 'committed' || state.kind === 'dropped') {
        if (ended.size >= cacheSize) ended.clear();
        ended.set(key, state);
      }
      return state;
    },
  };
}
