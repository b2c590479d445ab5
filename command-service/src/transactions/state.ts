import type { Actor, transactionEvents, TypeIn } from '@token-vault/contracts';
import { evolveBy, unchanged, type Position, type RecordedEvent } from '@token-vault/event-store';

/** A transaction that is not over by then is rolled back (rules.md §9). */
export const transactionLifetimeMs = 60 * 60 * 1000;

/** A write that was announced in the transaction. Events before version 2 do not have the undefined fields. */
export interface Enlisted {
  readonly tokenId: string;
  /**
   * The revision of the token's last event at that time. The enlisted write, if it was appended, is the next event.
   */
  readonly revision: number | undefined;
  readonly write: 'create' | 'update' | 'delete' | undefined;
  /** The data keys made for the write. They are needed only when the transaction is committed. */
  readonly newKeyIds: readonly string[] | undefined;
  /** Whether the commit makes keys of the token unneeded. */
  readonly erases: boolean | undefined;
}

interface Opened {
  readonly createdBy: string;
  /** Undefined when the vault opened the transaction for the work of one request, or an older release opened it. */
  readonly opener: { readonly actor: Actor; readonly keyHash: string } | undefined;
  readonly createdAt: string;
  readonly expiresAt: string;
  /**
   * In order. The fold changes one list and one map in place: copies would make ten thousand writes cost fifty
   * million steps.
   */
  readonly writes: Enlisted[];
  /** Each enlisted token with the number of tokens before it. */
  readonly tokens: Map<string, number>;
  /** Hashes of the caller's rights when the writes were decided (`rightsOf`). */
  readonly rights: Set<string>;
  /** The size of all that the writes store. */
  readonly stored: { bytes: number };
  /** The earliest expiry that the tokens had before the transaction wrote them, in milliseconds; Infinity when no token expires. */
  readonly firstExpiry: { ms: number };
}

export type TransactionState =
  | { readonly kind: 'absent' }
  | ({ readonly kind: 'open' } & Opened)
  | ({ readonly kind: 'committed'; readonly position: Position; readonly committedAt: string } & Opened)
  | ({ readonly kind: 'dropped' } & Opened);

export const initialState: TransactionState = { kind: 'absent' };

function enlist(
  { writes, tokens, rights, stored, firstExpiry }: Opened,
  { data }: RecordedEvent<'TransactionTokenEnlisted'>,
): void {
  writes.push({
    tokenId: data.token_id,
    revision: data.revision,
    write: data.write,
    newKeyIds: data.new_key_ids,
    erases: data.erases,
  });
  stored.bytes += data.size ?? 0;
  if (data.rights !== undefined) rights.add(data.rights);
  if (!tokens.has(data.token_id)) tokens.set(data.token_id, tokens.size);
  if (data.token_expires_at !== undefined)
    firstExpiry.ms = Math.min(firstExpiry.ms, Date.parse(data.token_expires_at));
}

// The first opening and the first end count, as they do for the read models. A write that is enlisted after the end only has its keys destroyed.
const dropped = (state: TransactionState): TransactionState =>
  state.kind === 'open' ? { ...state, kind: 'dropped' } : state;

/** Changes the list and the map in place, so a state may be folded only once. */
export const evolve = evolveBy<TransactionState, TypeIn<typeof transactionEvents>>({
  TransactionOpened(before, event) {
    if (before.kind !== 'absent') return before;
    const { expires_at: expiresAt, key_hash: keyHash } = event.data;
    const { actor, occurred_at: createdAt } = event.metadata;
    const nothing = {
      writes: [],
      tokens: new Map(),
      rights: new Set<string>(),
      stored: { bytes: 0 },
      firstExpiry: { ms: Infinity },
    };
    const opener = keyHash === undefined ? undefined : { actor, keyHash };
    return { kind: 'open', createdBy: actor.id, opener, createdAt, expiresAt, ...nothing };
  },
  TransactionTokenEnlisted(state, event) {
    if (state.kind !== 'absent') enlist(state, event);
    return state;
  },
  TransactionCounted: unchanged,
  TransactionCommitted: (state, { position, metadata }) =>
    state.kind === 'open'
      ? { ...state, kind: 'committed', position, committedAt: metadata.occurred_at }
      : state,
  TransactionRolledBack: dropped,
  TransactionExpired: dropped,
});
