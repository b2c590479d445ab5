import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { change } from '../aggregates/decider.ts';
import type { Fact } from '../aggregates/fact.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import { eventsOf } from './enlistment.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { signTokenEvents } from './signed.ts';

interface TokenChange {
  readonly tokenId: string;
  /** Whose the change is. */
  readonly context: RequestContext;
  /** True when the change may see the writes of the transaction of `context`. */
  readonly seesOwn?: true;
  readonly decide: (history: TokenHistory) => readonly Fact[] | Promise<readonly Fact[]>;
}

/** `change` of a token: its state depends on the outcomes of transactions, and its events are signed. */
export async function changeToken(
  dependencies: {
    readonly store: EventStore;
    readonly outcomes: TransactionOutcomes;
    readonly keyRing: Pick<KeyRing, 'hashes'>;
  },
  { tokenId, context, seesOwn, decide }: TokenChange,
): Promise<{ readonly facts: readonly Fact[]; readonly position: Position | undefined }> {
  const { store, keyRing } = dependencies;
  const tenantId = context.principal.tenant.id;
  const { decided, position } = await change({
    store,
    stream: streams.token(tenantId, tokenId),
    load: () => readTokenHistory(dependencies, tenantId, tokenId, seesOwn && context),
    async decide(history) {
      const facts = await decide(history);
      const events = eventsOf(context, facts, history);
      return { facts, events: await signTokenEvents(keyRing, tenantId, events, history) };
    },
  });
  return { facts: decided.facts, position };
}
