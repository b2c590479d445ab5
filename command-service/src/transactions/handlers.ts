import { authorOf, newId } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import type { TokenErasure } from '../tokens/erasure.ts';
import { outsideTransaction, withinTransaction } from './context.ts';
import { isOver, type TransactionCommand } from './decider.ts';
import { createTransactionCounts, type TransactionCounts } from './counts.ts';
import type { TransactionOutcomes } from './outcomes.ts';

/** rules.md §9. */
export const transactionLifetimeMs = 60 * 60 * 1000;

export interface TransactionView {
  readonly id: string;
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at: string;
}

/** Opens, commits and rolls back transactions. A commit is one append, so all of it shows at once. */
export class Transactions {
  readonly #outcomes: TransactionOutcomes;
  readonly #erasure: TokenErasure;
  readonly #counts: TransactionCounts;

  constructor(store: EventStore, outcomes: TransactionOutcomes, erasure: TokenErasure) {
    this.#outcomes = outcomes;
    this.#erasure = erasure;
    this.#counts = createTransactionCounts(store, outcomes);
  }

  async open(
    context: RequestContext,
  ): Promise<{ transaction: TransactionView; position: Position | undefined }> {
    await this.#counts.refuseTooMany(context);
    const { transaction, position } = await this.#open(context, context.newEntityId());
    // A repeated request has been counted.
    if (position !== undefined) await this.#count(context, transaction.id);
    return { transaction, position };
  }

  /** Of those that open one at the same time, whoever is counted too late takes it back. */
  async #count(context: RequestContext, id: string): Promise<void> {
    try {
      await this.#counts.add(context, id);
    } catch (error) {
      await this.rollback(id, context);
      throw error;
    }
  }

  async #open(context: RequestContext, id: string) {
    const expiresAt = new Date(context.now.getTime() + transactionLifetimeMs).toISOString();
    const { position, before } = await this.#run(context, { kind: 'open', id, expiresAt });
    // A repeated request finds it there already.
    const opened = before.kind === 'absent' ? { createdAt: context.metadata.occurred_at, expiresAt } : before;
    const transaction: TransactionView = {
      id,
      created_at: opened.createdAt,
      created_by: authorOf(context.metadata),
      expires_at: opened.expiresAt,
    };
    return { transaction, position, before };
  }

  /** @throws NotFoundError, ConflictError */
  commit(id: string, context: RequestContext): Promise<Position | undefined> {
    return this.#end(context, { kind: 'commit', id, by: context.principal.actor.id, now: context.now });
  }

  /** @throws NotFoundError, ConflictError */
  rollback(id: string, context: RequestContext): Promise<Position | undefined> {
    return this.#end(context, { kind: 'rollback', id, by: context.principal.actor.id, now: context.now });
  }

  /** Runs `work` in a transaction of its own: what it writes appears all at once, or not at all when it throws. */
  async run<Result>(
    context: RequestContext,
    work: (enlisted: RequestContext) => Promise<Result>,
  ): Promise<{ result: Result; position: Position | undefined }> {
    const id = await this.#openForWork(context);
    const enlisted = withinTransaction(context, id);
    try {
      const result = await work(enlisted);
      return { result, position: await this.commit(id, context) };
    } catch (error) {
      // Should this fail too, the transaction ends by its time; nothing of it is ever shown.
      await this.rollback(id, context).catch(() => undefined);
      throw error;
    }
  }

  /** A repeated request takes back what its first run left open, and begins anew; what that had committed it will find. */
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

  /** Destroys the keys that the end of a transaction has made unneeded: of tokens it deleted, or never came to create. */
  async settle(tenantId: string, transactionId: string): Promise<void> {
    const state = await this.#outcomes.wholeStateOf(tenantId, transactionId);
    await this.#erasure.settle(tenantId, transactionId, state);
    // Kept small from here on.
    await this.#outcomes.stateOf(tenantId, transactionId);
  }

  #run(context: RequestContext, command: TransactionCommand): ReturnType<TransactionOutcomes['decide']> {
    const outside = outsideTransaction(context);
    return this.#outcomes.decide(context.principal.tenant.id, command, outside.event.bind(outside));
  }
}
