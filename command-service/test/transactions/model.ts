/**
 * The rules of transactions (rules.md §9) in a few lines and without concurrency: the reference of the property test.
 */

export type Outcome = 'ok' | 'not_found' | 'token_id_taken' | 'token_locked' | 'transaction_not_open';

interface ModelTransaction {
  status: 'open' | 'ended';
  readonly expiresAt: number;
  /** The writes of the transaction: the value of each token, undefined for a deleted one. */
  readonly changes: Map<string, string | undefined>;
}

export const lifetimeMs = 60 * 60 * 1000;

export class Model {
  readonly committed = new Map<string, string>();
  readonly transactions: ModelTransaction[] = [];
  now = 0;

  open(): void {
    this.transactions.push({ status: 'open', expiresAt: this.now + lifetimeMs, changes: new Map() });
  }

  isOpen(index: number): boolean {
    const transaction = this.transactions[index];
    return transaction?.status === 'open' && transaction.expiresAt > this.now;
  }

  seenBy(index: number | undefined): Map<string, string> {
    const seen = new Map(this.committed);
    if (index === undefined || !this.isOpen(index)) return seen;
    for (const [id, value] of this.transactions[index]?.changes ?? []) {
      if (value === undefined) seen.delete(id);
      else seen.set(id, value);
    }
    return seen;
  }

  #isLocked(id: string, by: number | undefined): boolean {
    return this.transactions.some(
      (transaction, index) => index !== by && this.isOpen(index) && transaction.changes.has(id),
    );
  }

  #apply(id: string, value: string | undefined, by: number | undefined): void {
    if (by !== undefined) this.transactions[by]?.changes.set(id, value);
    else if (value === undefined) this.committed.delete(id);
    else this.committed.set(id, value);
  }

  write(kind: 'create' | 'patch' | 'delete', id: string, value: string, by: number | undefined): Outcome {
    const outcome = this.expect(kind, id, by);
    if (outcome === 'ok') this.#apply(id, kind === 'delete' ? undefined : value, by);
    return outcome;
  }

  expect(kind: 'create' | 'patch' | 'delete', id: string, by: number | undefined): Outcome {
    if (by !== undefined && !this.isOpen(by)) return 'transaction_not_open';
    const isThere = this.seenBy(by).has(id);
    if (kind !== 'create' && !isThere) return 'not_found';
    if (this.#isLocked(id, by)) return 'token_locked';
    return kind === 'create' && isThere ? 'token_id_taken' : 'ok';
  }

  /** All or nothing. The first token that fails gives the error. */
  tokenize(ids: readonly string[], value: string, by: number | undefined): Outcome {
    if (by !== undefined && !this.isOpen(by)) return 'transaction_not_open';
    const taken = new Set<string>();
    for (const id of ids) {
      const outcome = this.expect('create', id, by);
      if (outcome !== 'ok') return this.#withdraw(taken, by, outcome);
      if (taken.has(id)) return this.#withdraw(taken, by, 'token_id_taken');
      taken.add(id);
    }
    for (const id of ids) this.#apply(id, value, by);
    return 'ok';
  }

  /** Tokens that a failed tokenize withdrew stay written by the caller's transaction, and so stay locked. */
  #withdraw(ids: ReadonlySet<string>, by: number | undefined, outcome: Outcome): Outcome {
    if (by !== undefined) for (const id of ids) this.#apply(id, undefined, by);
    return outcome;
  }

  end(how: 'commit' | 'rollback', index: number): Outcome {
    const transaction = this.transactions[index];
    if (!transaction || !this.isOpen(index)) return 'transaction_not_open';
    if (how === 'commit') for (const [id, value] of transaction.changes) this.#apply(id, value, undefined);
    transaction.status = 'ended';
    return 'ok';
  }
}
