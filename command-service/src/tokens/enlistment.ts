import { ConflictError, TransactionTokenEnlisted, type VaultEvent } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { comparePositions, type Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { Attempts } from '../aggregates/attempts.ts';
import type { Fact } from '../aggregates/decider.ts';
import { outsideTransaction } from '../transactions/context.ts';
import { refuseExpiredTokens, requireOpen } from '../transactions/decider.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import { rightsOf } from '../transactions/rights.ts';
import type { TransactionState } from '../transactions/state.ts';
import { decidedKeyIds } from './decider.ts';
import type { TokenHistory } from './history.ts';

/** The most tokens that one transaction writes. */
const maxTokensOfTransaction = 10_000;
/** The most writes. A token may be written more than once, and a write that met a conflict is enlisted again. */
const maxWrites = 4 * maxTokensOfTransaction;

/**
 * The most bytes that the writes of one transaction store. The read models hold them until the end, and apply them at once: on a busy machine of two
 * processors 6 MB a second, and lists are refused after 10 s. Writes at the same time may exceed it by their own size.
 */
const maxBytes = 32 * 1024 * 1024;

/** A write that is about to be made. */
interface EnlistedWrite {
  readonly tokenId: string;
  readonly write: 'create' | 'update' | 'delete';
  /** The revision of the token's last event, -1 if it has none. */
  readonly revision: number;
  /** When the committed token expires; undefined after an earlier write of the same transaction. */
  readonly expiresAt?: string | undefined;
  /** Data keys made for it. */
  readonly newKeyIds: readonly string[];
  /** The facts that the write appends. `key_ids` in them are the keys that its commit makes unneeded. */
  readonly facts: readonly Fact[];
}

/**
 * The steps of a write before and after its append when it takes part in a transaction. Without a transaction they do
 * nothing.
 */
export interface Enlistment {
  /**
   * The first step: only the caller that opened a transaction may use it.
   * @throws NotFoundError, ConflictError when the transaction is not the caller's or not open.
   */
  check(context: RequestContext): Promise<void>;
  /**
   * Before the append. From here on, the end of the transaction destroys the keys that are not needed.
   * @throws as `check`; ConflictError when the transaction holds as many tokens as it may.
   */
  begin(context: RequestContext, write: EnlistedWrite): Promise<void>;
  /**
   * After the append. @throws ConflictError when the transaction ended before the append. The write then does not
   * count, and its new keys are destroyed.
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
    const state = await outcomes.endIfOver(principal.tenant.id, transactionId);
    requireOpen(state, principal.actor.id, context.now);
    refuseExpiredTokens(state, context.now);
    refuseFull(state);
  }

  return {
    check,

    async begin(context, write) {
      const { transactionId, principal } = context;
      if (transactionId === undefined) return;
      const event = enlisted(outsideTransaction(context), transactionId, write);
      const state = await outcomes.record(principal.tenant.id, transactionId, event);
      // Read after the append: a transaction that ended before it has not handled this token.
      requireOpen(state, principal.actor.id, context.now);
      const place = state.kind === 'open' ? state.tokens.get(write.tokenId) : undefined;
      if ((place ?? 0) >= maxTokensOfTransaction) throw full();
    },

    async confirm(context, newKeyIds, position) {
      const { transactionId, principal } = context;
      if (transactionId === undefined) return;
      const state = await outcomes.endIfOver(principal.tenant.id, transactionId);
      if (state.kind === 'open') return;
      if (state.kind === 'committed' && comparePositions(position, state.position) < 0) return;
      await keyRing.destroyKeys(principal.tenant.id, newKeyIds);
      throw new ConflictError('transaction_not_open', 'The transaction ended before this write.');
    },
  };
}

const full = (most = `${maxTokensOfTransaction} tokens`): ConflictError =>
  new ConflictError(
    'transaction_full',
    `A transaction holds at most ${most}. Commit it and go on in another.`,
  );

function refuseFull(state: TransactionState): void {
  if (state.kind !== 'open') return;
  if (state.writes.length >= maxWrites) throw full();
  if (state.stored.bytes >= maxBytes) throw full('32 MiB of tokens');
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
    size: Buffer.byteLength(JSON.stringify(write.facts)),
    rights: rightsOf(context.principal),
    ...(write.expiresAt === undefined ? {} : { token_expires_at: write.expiresAt }),
  });
}

/**
 * The events of a decision. An enlisted event also holds the content that applies if its transaction is not
 * committed.
 */
export function eventsOf(
  context: RequestContext,
  facts: readonly Fact[],
  history: Pick<TokenHistory, 'base'> | undefined,
  attempts?: Pick<Attempts, 'events'>,
): VaultEvent[] {
  const events = attempts?.events(facts) ?? facts.map((fact) => context.event(fact, fact.data));
  return events.map((event) => {
    if (context.transactionId === undefined) return event;
    return { ...event, metadata: { ...event.metadata, counts_after: history?.base ?? -1 } };
  });
}
