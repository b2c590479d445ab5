import { streams, type VaultEvent } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import {
  comparePositions,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import { answerEntityOfToken } from '@token-vault/idempotency';
import type { Fact } from '../aggregates/decider.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { Enlisted, TransactionState } from '../transactions/state.ts';
import { decidedKeyIds, keyIdsOf } from './decider.ts';
import { readTokenHistory } from './history.ts';

/** The part of an event, or of the fact that will become it, that names keys. */
type Said = Pick<Fact | VaultEvent, 'type' | 'data'>;

/** The number of tokens whose keys are handled at the same time. */
const settledAtOnce = 64;

function namedKeys(event: RecordedEvent): string[] {
  const sealed = event.type === 'TokenCreated' || event.type === 'TokenUpdated' ? keyIdsOf(event.data) : [];
  return [...sealed, ...decidedKeyIds(event)];
}

const endings = new Set(['TokenDeleted', 'TokenExpired']);

interface ErasureDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'destroyKeys' | 'destroyKeysOfEntity'>;
  readonly outcomes: TransactionOutcomes;
}

/** Destroys keys by the decisions of the log, and only by them. All methods are safe to repeat. */
export class TokenErasure {
  readonly #store: EventStore;
  readonly #keyRing: ErasureDependencies['keyRing'];
  readonly #outcomes: TransactionOutcomes;

  constructor({ store, keyRing, outcomes }: ErasureDependencies) {
    this.#store = store;
    this.#keyRing = keyRing;
    this.#outcomes = outcomes;
  }

  /**
   * Destroys the data keys that these events of one append have decided to destroy. When they end the token, its
   * stored idempotent answers are destroyed too (rules.md §2).
   */
  async carryOut(tenantId: string, tokenId: string, decided: readonly Said[]): Promise<void> {
    await Promise.all([
      this.#destroy(tenantId, decided.flatMap(decidedKeyIds)),
      endings.has(decided.at(-1)?.type ?? '') ? this.#destroyAnswers(tenantId, tokenId) : undefined,
    ]);
  }

  /** Repeats the destruction that the end of a token has decided. */
  async repeatEnd(tenantId: string, tokenId: string, keyIds: readonly string[]): Promise<void> {
    await Promise.all([this.#destroy(tenantId, keyIds), this.#destroyAnswersOfAbsent(tenantId, tokenId)]);
  }

  /**
   * Destroys the keys that the end of a transaction has decided to destroy, for all tokens that were enlisted in it.
   */
  async settle(tenantId: string, transactionId: string, state: TransactionState): Promise<void> {
    if (state.kind !== 'committed' && state.kind !== 'dropped') return;
    for (let start = 0; start < state.writes.length; start += settledAtOnce) {
      const portion = state.writes.slice(start, start + settledAtOnce);
      await Promise.all(
        portion.map((write) =>
          state.kind === 'committed'
            ? this.#settleCommitted(tenantId, { id: transactionId, position: state.position }, write)
            : this.#settleDropped(tenantId, write),
        ),
      );
    }
  }

  /** Destroys the keys of an event that came after the end of its transaction. */
  async eraseLate(tenantId: string, event: RecordedEvent, state: TransactionState): Promise<void> {
    if (event.type === 'TokenCreated') return this.#destroy(tenantId, namedKeys(event));
    if (event.type !== 'TokenUpdated' || state.kind === 'absent') return;
    const { token_id: tokenId } = event.data;
    const write = state.writes.findLast(
      (each) => each.tokenId === tokenId && each.revision === event.revision - 1,
    );
    if (write?.newKeyIds) await this.#destroy(tenantId, write.newKeyIds);
    else await this.eraseUnneeded(tenantId, tokenId);
  }

  /** Reads the whole history. For events of releases that did not name the keys that become unneeded. */
  async eraseUnneeded(tenantId: string, tokenId: string): Promise<void> {
    const named = new Set<string>();
    const needed = new Set<string>();
    for await (const event of this.#store.readStream(streams.token(tenantId, tokenId))) {
      const isPending = await this.#isPending(tenantId, event);
      for (const keyId of namedKeys(event)) (isPending ? needed : named).add(keyId);
    }
    const { state, isPending } = await readTokenHistory(
      { store: this.#store, outcomes: this.#outcomes },
      tenantId,
      tokenId,
    );
    if (state.kind === 'present') for (const keyId of keyIdsOf(state.details.content)) needed.add(keyId);
    const unneeded = [...named].filter((keyId) => !needed.has(keyId));
    await Promise.all([
      this.#destroy(tenantId, unneeded),
      state.kind !== 'present' && !isPending ? this.#destroyAnswers(tenantId, tokenId) : undefined,
    ]);
  }

  async #isPending(tenantId: string, { metadata }: RecordedEvent): Promise<boolean> {
    const { transaction_id: id } = metadata;
    return id !== undefined && (await this.#outcomes.endIfOver(tenantId, id)).kind === 'open';
  }

  /** After a commit: when the write was made in time, it names the keys that become unneeded. */
  async #settleCommitted(
    tenantId: string,
    commit: { readonly id: string; readonly position: Position },
    { tokenId, revision, erases }: Enlisted,
  ): Promise<void> {
    if (erases === undefined || revision === undefined) return this.eraseUnneeded(tenantId, tokenId);
    if (!erases) return;
    const written: RecordedEvent[] = [];
    const range = { from: revision + 1, maxCount: 2 };
    for await (const event of this.#store.readStream(streams.token(tenantId, tokenId), range)) {
      const isInTime = comparePositions(event.position, commit.position) < 0;
      if (event.metadata.transaction_id === commit.id && isInTime) written.push(event);
    }
    await this.carryOut(tenantId, tokenId, written);
  }

  /** After a rollback or expiry: the keys that were made for the write are unneeded. */
  async #settleDropped(tenantId: string, { tokenId, write, newKeyIds }: Enlisted): Promise<void> {
    if (newKeyIds === undefined) return this.eraseUnneeded(tenantId, tokenId);
    await this.#destroy(tenantId, newKeyIds);
    if (write === 'create') await this.#destroyAnswersOfAbsent(tenantId, tokenId);
  }

  /** Another token may have the same id now. Its answers stay. */
  async #destroyAnswersOfAbsent(tenantId: string, tokenId: string): Promise<void> {
    const { state, isPending } = await readTokenHistory(
      { store: this.#store, outcomes: this.#outcomes },
      tenantId,
      tokenId,
    );
    if (state.kind !== 'present' && !isPending) await this.#destroyAnswers(tenantId, tokenId);
  }

  async #destroy(tenantId: string, keyIds: readonly string[]): Promise<void> {
    if (keyIds.length > 0) await this.#keyRing.destroyKeys(tenantId, keyIds);
  }

  #destroyAnswers(tenantId: string, tokenId: string): Promise<unknown> {
    return this.#keyRing.destroyKeysOfEntity(tenantId, answerEntityOfToken(tokenId));
  }
}
