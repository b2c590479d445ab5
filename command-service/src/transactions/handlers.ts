import { authorOf, newId } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { TokenErasure } from '../tokens/erasure.ts';
import { CommitTurns } from './commit-turns.ts';
import { outsideTransaction, withinTransaction } from './context.ts';
import { isOver, notOpen, type TransactionCommand } from './decider.ts';
import { createTransactionCounts, type TransactionCounts } from './counts.ts';
import { isOpenerGone } from './opener.ts';
import type { TransactionOutcomes } from './outcomes.ts';
import { rightsOf } from './rights.ts';
import { transactionLifetimeMs } from './state.ts';

export interface TransactionView {
  readonly id: string;
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at: string;
}

/**
 * Opens, commits and rolls back transactions. A commit is one append, so all of its changes become visible at once.
 */
export class Transactions {
  readonly #store: EventStore;
  readonly #outcomes: TransactionOutcomes;
  readonly #erasure: TokenErasure;
  readonly #counts: TransactionCounts;
  readonly #commitTurns: CommitTurns;

  constructor(
    store: EventStore,
    outcomes: TransactionOutcomes,
    erasure: TokenErasure,
    commitTurns = new CommitTurns(),
  ) {
    this.#store = store;
    this.#outcomes = outcomes;
    this.#erasure = erasure;
    this.#commitTurns = commitTurns;
    this.#counts = createTransactionCounts(store, outcomes);
  }

  async open(
    context: RequestContext,
  ): Promise<{ transaction: TransactionView; position: Position | undefined }> {
    await this.#counts.refuseTooMany(context);
    const { keyHash } = context.principal;
    const { transaction, position } = await this.#open(context, context.newEntityId(), keyHash);
    // A repeated request was counted before.
    if (position !== undefined) await this.#count(context, transaction.id);
    return { transaction, position };
  }

  /** When several requests open transactions at once, those above the limit are rolled back. */
  async #count(context: RequestContext, id: string): Promise<void> {
    try {
      await this.#counts.add(context, id);
    } catch (error) {
      await this.rollback(id, context);
      throw error;
    }
  }

  async #open(context: RequestContext, id: string, keyHash?: string) {
    const expiresAt = new Date(context.now.getTime() + transactionLifetimeMs).toISOString();
    const { position, before } = await this.#run(context, { kind: 'open', id, expiresAt, keyHash });
    // A repeated request finds the transaction open.
    const opened = before.kind === 'absent' ? { createdAt: context.metadata.occurred_at, expiresAt } : before;
    const transaction: TransactionView = {
      id,
      created_at: opened.createdAt,
      created_by: authorOf(context.metadata),
      expires_at: opened.expiresAt,
    };
    return { transaction, position, before };
  }

  /**
   * @throws NotFoundError; ForbiddenError when the caller's rights have changed; ConflictError when it is not open, when the key that opened
   * it is no longer valid, or when a token of it has expired; UnavailableError when it is large and its turn does not come in time
   */
  async commit(id: string, context: RequestContext): Promise<Position | undefined> {
    const state = await this.#outcomes.endIfOver(context.principal.tenant.id, id);
    const bytes = state.kind === 'open' ? state.stored.bytes : 0;
    return this.#commitTurns.run(bytes, context, (now) => this.#commit(id, now));
  }

  async #commit(id: string, context: RequestContext): Promise<Position | undefined> {
    await this.#refuseInvalidOpener(id, context);
    return this.#end(context, {
      kind: 'commit',
      id,
      by: context.principal.actor.id,
      rights: rightsOf(context.principal),
      now: context.now,
    });
  }

  /** A transaction ends with the key by which it was opened (rules.md §9), also before housekeeping rolls it back. */
  async #refuseInvalidOpener(id: string, { principal, now }: RequestContext): Promise<void> {
    const tenantId = principal.tenant.id;
    const state = await this.#outcomes.endIfOver(tenantId, id);
    const opener = state.kind === 'open' ? state.opener : undefined;
    // The key of this request was found valid.
    if (!opener || opener.keyHash === principal.keyHash || opener.actor.id !== principal.actor.id) return;
    if (await isOpenerGone({ store: this.#store, tenantId, now }, opener)) throw notOpen();
  }

  /** @throws NotFoundError, ConflictError */
  rollback(id: string, context: RequestContext): Promise<Position | undefined> {
    return this.#end(context, { kind: 'rollback', id, by: context.principal.actor.id, now: context.now });
  }

  /** Runs `work` in a new transaction. Its writes become visible all at once, or not at all when `work` throws. */
  async run<Result>(
    context: RequestContext,
    work: (enlisted: RequestContext) => Promise<Result>,
  ): Promise<{ result: Result; position: Position | undefined }> {
    const id = await this.#openForWork(context);
    const enlisted = withinTransaction(context, id);
    try {
      const result = await work(enlisted);
      // The size of its body bounds such a transaction, and bodies have turns of their own.
      return { result, position: await this.#commit(id, context) };
    } catch (error) {
      // If this fails too, the transaction ends by its time. Its writes are never shown.
      await this.rollback(id, context).catch(() => undefined);
      throw error;
    }
  }

  /**
   * A repeated request rolls back the open transaction of its first run and begins again. Writes that the first run
   * committed are found by their ids.
   */
  async #openForWork(context: RequestContext): Promise<string> {
    const { transaction, before } = await this.#open(context, context.newEntityId());
    if (before.kind === 'absent') return transaction.id;
    if (before.kind === 'open' && !isOver(before, context.now)) await this.rollback(transaction.id, context);
    return (await this.#open(context, newId())).transaction.id;
  }

  async #end(context: RequestContext, command: TransactionCommand): Promise<Position | undefined> {
    const { position } = await this.#run(context, command);
    await this.settle(context.principal.tenant.id, command.id);
    return position;
  }

  /**
   * Destroys the keys that the end of a transaction made unneeded: those of deleted tokens, and of tokens that were
   * not created.
   */
  async settle(tenantId: string, transactionId: string): Promise<void> {
    const state = await this.#outcomes.endIfOverWithWrites(tenantId, transactionId);
    await this.#erasure.settle(tenantId, transactionId, state);
    // From here on only a small state is kept in memory.
    await this.#outcomes.endIfOver(tenantId, transactionId);
  }

  #run(context: RequestContext, command: TransactionCommand): ReturnType<TransactionOutcomes['execute']> {
    const outside = outsideTransaction(context);
    return this.#outcomes.execute(context.principal.tenant.id, command, outside.event.bind(outside));
  }
}
