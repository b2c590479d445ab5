import type { Position, RecordedEvent } from '@token-vault/event-store';

/** A write that was about to be made in the transaction. What is undefined was not said before version 2. */
export interface Enlisted {
  readonly tokenId: string;
  /** Of the token's last event then: the write, if it came, is the next one. */
  readonly revision: number | undefined;
  readonly write: 'create' | 'update' | 'delete' | undefined;
  /** Data keys made for the write: nothing needs them unless the transaction is committed. */
  readonly newKeyIds: readonly string[] | undefined;
  /** Whether the commit leaves keys of the token unneeded. */
  readonly erases: boolean | undefined;
}

interface Opened {
  readonly createdBy: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  /** In order. One mutable list of a fold, and one map: copies would make ten thousand writes cost fifty million steps. */
  readonly writes: Enlisted[];
  /** Each token that was enlisted, and how many were before it. */
  readonly tokens: Map<string, number>;
}

export type TransactionState =
  | { readonly kind: 'absent' }
  | ({ readonly kind: 'open' } & Opened)
  | ({ readonly kind: 'committed'; readonly position: Position } & Opened)
  | ({ readonly kind: 'dropped' } & Opened);

export const initialState: TransactionState = { kind: 'absent' };

function enlist({ writes, tokens }: Opened, { data }: RecordedEvent<'TransactionTokenEnlisted'>): void {
  writes.push({
    tokenId: data.token_id,
    revision: data.revision,
    write: data.write,
    newKeyIds: data.new_key_ids,
    erases: data.erases,
  });
  if (!tokens.has(data.token_id)) tokens.set(data.token_id, tokens.size);
}

/** Folds in place what grows: fold a state once only. */
export function evolve(state: TransactionState, event: RecordedEvent): TransactionState {
  if (event.type === 'TransactionOpened') {
    const { expires_at: expiresAt } = event.data;
    const { actor, occurred_at: createdAt } = event.metadata;
    return { kind: 'open', createdBy: actor.id, createdAt, expiresAt, writes: [], tokens: new Map() };
  }
  if (state.kind === 'absent') return state;
  switch (event.type) {
    case 'TransactionTokenEnlisted':
      enlist(state, event);
      return state;
    case 'TransactionCommitted':
      return { ...state, kind: 'committed', position: event.position };
    case 'TransactionRolledBack':
    case 'TransactionExpired':
      return { ...state, kind: 'dropped' };
    default:
      return state;
  }
}
