import { streams } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { execute, load } from '../aggregates/decider.ts';
import type { TokenErasure } from '../tokens/erasure.ts';
import { withoutTransaction } from '../tokens/fingerprint-claims.ts';
import { transactionDecider, type TransactionCommand } from './decider.ts';
import type { TransactionState } from './state.ts';

/** decisions.md §9. */
export const transactionLifetimeMs = 60 * 60 * 1000;

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
    const id = context.newEntityId();
    const expiresAt = new Date(context.now.getTime() + transactionLifetimeMs).toISOString();
    const position = await this.#run(context, { kind: 'open', id, expiresAt });
    const transaction = {
      id,
      created_at: context.metadata.occurred_at,
      created_by: context.principal.applicationId,
      expires_at: expiresAt,
    };
    return { transaction, position };
  }

  /** @throws NotFoundError, ConflictError */
  commit(id: string, context: RequestContext): Promise<Position | undefined> {
    return this.#end(context, { kind: 'commit', id, by: context.principal.applicationId, now: context.now });
  }

  /** @throws NotFoundError, ConflictError */
  rollback(id: string, context: RequestContext): Promise<Position | undefined> {
    return this.#end(context, {
      kind: 'rollback',
      id,
      by: context.principal.applicationId,
      now: context.now,
    });
  }

  /** Runs `work` in a transaction of its own: what it writes appears all at once, or not at all when it throws. */
  async run<Result>(
    context: RequestContext,
    work: (enlisted: RequestContext) => Promise<Result>,
  ): Promise<{ result: Result; position: Position | undefined }> {
    const { transaction } = await this.open(context);
    const metadata = { ...context.metadata, transaction_id: transaction.id };
    const enlisted: RequestContext = {
      ...context,
      transactionId: transaction.id,
      metadata,
      event: (definition, data) => ({ ...context.event(definition, data), metadata }),
    };
    try {
      const result = await work(enlisted);
      return { result, position: await this.commit(transaction.id, context) };
    } catch (error) {
      // Should this fail too, the transaction ends by its time; nothing of it is ever shown.
      await this.rollback(transaction.id, context).catch(() => undefined);
      throw error;
    }
  }

  async #end(context: RequestContext, command: TransactionCommand): Promise<Position | undefined> {
    const position = await this.#run(context, command);
    await this.settle(context.principal.tenant.id, command.id);
    return position;
  }

  /** Destroys the keys that the end of a transaction has made unneeded: of tokens it deleted, or never came to create. */
  async settle(tenantId: string, transactionId: string): Promise<void> {
    const state = await this.#load(tenantId, transactionId);
    if (state.kind !== 'committed' && state.kind !== 'dropped') return;
    for (const tokenId of state.tokenIds) await this.#erasure.eraseUnneeded(tenantId, tokenId);
  }

  async #load(tenantId: string, transactionId: string): Promise<TransactionState> {
    const stream = streams.transaction(tenantId, transactionId);
    return (await load(this.#store, stream, transactionDecider)).state;
  }

  async #run(context: RequestContext, command: TransactionCommand): Promise<Position | undefined> {
    const stream = streams.transaction(context.principal.tenant.id, command.id);
    const event: RequestContext['event'] = (definition, data) =>
      withoutTransaction(context.event(definition, data));
    const executed = await execute({
      store: this.#store,
      stream,
      decider: transactionDecider,
      command,
      event,
    });
    return executed.position;
  }
}
