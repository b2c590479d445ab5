import { authorOf, newId, streams } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { execute, load, type Executed } from '../aggregates/decider.ts';
import type { TokenErasure } from '../tokens/erasure.ts';
import { outsideTransaction, withinTransaction } from './context.ts';
import { isOver, transactionDecider, type TransactionCommand } from './decider.ts';
import type { TransactionState } from './state.ts';

/** decisions.md §9. */
export const transactionLifetimeMs = 60 * 60 * 1000;

/** Tokens whose keys are seen to at the same time. */
const settledAtOnce = 16;

export interface TransactionView {
  readonly id: string;
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at: string;
}

/** Opens, commits and rolls back transactions. A commit is one append, so all of it shows at once. */
export class Transactions {
  readonly #store: EventStore;
  readonly #erasure: TokenErasure;

  constructor(store: EventStore, erasure: TokenErasure) {
    this.#store = store;
    this.#erasure = erasure;
  }

  async open(
    context: RequestContext,
  ): Promise<{ transaction: TransactionView; position: Position | undefined }> {
    const { transaction, position } = await this.#open(context, context.newEntityId());
    return { transaction, position };
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
    const state = await this.#load(tenantId, transactionId);
    if (state.kind !== 'committed' && state.kind !== 'dropped') return;
    const tokenIds = [...state.tokenIds];
    while (tokenIds.length > 0) {
      const portion = tokenIds.splice(0, settledAtOnce);
      await Promise.all(portion.map((tokenId) => this.#erasure.eraseUnneeded(tenantId, tokenId)));
    }
  }

  async #load(tenantId: string, transactionId: string): Promise<TransactionState> {
    const stream = streams.transaction(tenantId, transactionId);
    return (await load(this.#store, stream, transactionDecider)).state;
  }

  #run(context: RequestContext, command: TransactionCommand): Promise<Executed<TransactionState>> {
    const outside = outsideTransaction(context);
    return execute({
      store: this.#store,
      stream: streams.transaction(context.principal.tenant.id, command.id),
      decider: transactionDecider,
      command,
      event: outside.event.bind(outside),
    });
  }
}
