import { ConflictError, TransactionTokenEnlisted, type VaultEvent } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { comparePositions, type Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import type { Fact } from '../aggregates/decider.ts';
import { outsideTransaction } from '../transactions/context.ts';
import { requireOpen } from '../transactions/decider.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TransactionState } from '../transactions/state.ts';
import { decidedKeyIds } from './decider.ts';
import type { TokenHistory } from './history.ts';

/** Most tokens that one transaction writes. */
export const maxTokensOfTransaction = 10_000;
/** Most writes; a token may be written more than once, and a write that met another is enlisted again. */
const maxWrites = 4 * maxTokensOfTransaction;

/** A write that is about to be made. */
export interface EnlistedWrite {
  readonly tokenId: string;
  readonly write: 'create' | 'update' | 'delete';
  /** Of the token's last event, -1 if it has none. */
  readonly revision: number;
  /** Data keys made for it. */
  readonly newKeyIds: readonly string[];
  /** What it would append; `key_ids` of these are what its commit leaves unneeded. */
  readonly facts: readonly Fact[];
}

/** What a write does around its append when it takes part in a transaction; nothing otherwise. */
export interface Enlistment {
  /**
   * Before anything else: the uncommitted work of a transaction is its owner's alone.
   * @throws NotFoundError, ConflictError when the transaction is not the caller's or not open.
   */
  check(context: RequestContext): Promise<void>;
  /**
   * Before the append: from here on the end of the transaction sees to the token's keys.
   * @throws as `check`; ConflictError when the transaction holds as many tokens as it may.
   */
  begin(context: RequestContext, write: EnlistedWrite): Promise<void>;
  /**
   * After the append. @throws ConflictError when the transaction ended before it: then it does not count, and the keys it
   * brought are destroyed.
   */
  confirm(context: RequestContext, newKeyIds: readonly string[], position: Position): Promise<void>;
}

export function createEnlistment(
  outcomes: TransactionOutcomes,
  keyRing: Pick<KeyRing, 'destroyKeys'>,
): Enlistment {
  async function check(context: RequestContext): Promise<void> {
    const { transactionId, principal } = context;
    if (transactionId === undefined) return;
    const state = await outcomes.stateOf(principal.tenant.id, transactionId);
    requireOpen(state, principal.actor.id, context.now);
    refuseFull(state);
  }

  return {
    check,

    async begin(context, write) {
      const { transactionId, principal } = context;
      if (transactionId === undefined) return;
      const event = enlisted(outsideTransaction(context), transactionId, write);
      const state = await outcomes.record(principal.tenant.id, transactionId, event);
      // Looked at after the append: an end that came before it has not seen to this token.
      requireOpen(state, principal.actor.id, context.now);
      const place = state.kind === 'open' ? state.tokens.get(write.tokenId) : undefined;
      if ((place ?? 0) >= maxTokensOfTransaction) throw full();
    },

    async confirm(context, newKeyIds, position) {
      const { transactionId, principal } = context;
      if (transactionId === undefined) return;
      const state = await outcomes.stateOf(principal.tenant.id, transactionId);
      if (state.kind === 'open') return;
      if (state.kind === 'committed' && comparePositions(position, state.position) < 0) return;
      await keyRing.destroyKeys(principal.tenant.id, newKeyIds);
      throw new ConflictError('transaction_not_open', 'The transaction ended before this write.');
    },
  };
}

const full = (): ConflictError =>
  new ConflictError(
    'transaction_full',
    `A transaction holds at most ${maxTokensOfTransaction} tokens. Commit it and go on in another.`,
  );

function refuseFull(state: TransactionState): void {
  if (state.kind === 'open' && state.writes.length >= maxWrites) throw full();
}

function enlisted(context: RequestContext, transactionId: string, write: EnlistedWrite): VaultEvent {
  const erased = write.facts.flatMap(decidedKeyIds);
  return context.event(TransactionTokenEnlisted, {
    transaction_id: transactionId,
    token_id: write.tokenId,
    revision: write.revision,
    write: write.write,
    new_key_ids: write.newKeyIds,
    erases: erased.length > 0,
  });
}

/** The events of a decision: an enlisted one says what counts should its transaction come to nothing. */
export function eventsOf(
  context: RequestContext,
  facts: readonly Fact[],
  history: Pick<TokenHistory, 'base'> | undefined,
): VaultEvent[] {
  return facts.map((fact) => {
    const event = context.event(fact, fact.data);
    if (context.transactionId === undefined) return event;
    return { ...event, metadata: { ...event.metadata, counts_after: history?.base ?? -1 } };
  });
}
