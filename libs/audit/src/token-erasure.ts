import { streams } from '@token-vault/contracts';
import { isSealedValue, keyIdOf, tenantsOfKeyRing } from '@token-vault/crypto';
import type { EventStore, ReadStreamOptions, StoredEvent } from '@token-vault/event-store';
import type { Pool } from 'pg';
import { misplacementOf } from './misplaced.ts';
import { tenantOf } from './tenant-of.ts';

/** The part of the log about a token: all values that were ever sealed, and the event that ended the token. */
export interface TokenErasure {
  readonly tenantId: string;
  /** Undefined while the token exists. */
  readonly endedBy: StoredEvent | undefined;
  /** By id: which fields were sealed under the data key, and which event decided its destruction. */
  readonly keys: ReadonlyMap<
    string,
    { readonly fields: ReadonlySet<string>; readonly decidedBy: StoredEvent | undefined }
  >;
  readonly tokenType: string;
}

async function readStream(
  store: EventStore,
  stream: string,
  options?: ReadStreamOptions,
): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of store.readStoredStream(stream, options)) events.push(event);
  return events;
}

/** Tenants whose log has a token of this id, erased or not. `pool`: the pool of the key ring, which knows the tenants. */
export async function tenantsOfToken(store: EventStore, pool: Pool, tokenId: string): Promise<string[]> {
  const tenants = await tenantsOfKeyRing(pool);
  const found = await Promise.all(
    tenants.map(async (tenantId) => {
      const events = await readStream(store, streams.token(tenantId, tokenId), { maxCount: 1 });
      return events.length > 0 ? [tenantId] : [];
    }),
  );
  return found.flat();
}

interface Facts {
  readonly data?: unknown;
  readonly cvc?: unknown;
  readonly key_ids?: readonly string[];
  readonly token_type?: string;
}

const ends: ReadonlySet<string> = new Set([
  'TransactionCommitted',
  'TransactionRolledBack',
  'TransactionExpired',
]);

/** The position of each commit among the transactions that have touched the stream. The first end of a transaction counts. */
async function readCommits(
  store: EventStore,
  tenantId: string,
  rows: readonly StoredEvent[],
): Promise<Map<string, bigint>> {
  const enlisting = new Set(rows.map(transactionOf).filter((id) => id !== undefined));
  const commits = new Map<string, bigint>();
  for (const id of enlisting) {
    const events = await readStream(store, streams.transaction(tenantId, id));
    const end = events.find((event) => ends.has(event.type) && !misplacementOf(event, tenantId));
    if (end?.type === 'TransactionCommitted') commits.set(id, BigInt(end.position));
  }
  return commits;
}

const transactionOf = (row: StoredEvent): string | undefined =>
  (JSON.parse(row.metadata) as { transaction_id?: string }).transaction_id;

/** The rule of the aggregate: an enlisted event counts when its transaction was committed after it. */
function counts(row: StoredEvent, commits: ReadonlyMap<string, bigint>): boolean {
  const transaction = transactionOf(row);
  return transaction === undefined || (commits.get(transaction) ?? -1n) > BigInt(row.position);
}

/** Undefined when the tenant has never had a token of this id. */
export async function readTokenErasure(
  store: EventStore,
  tenantId: string,
  tokenId: string,
): Promise<TokenErasure | undefined> {
  const stored = await readStream(store, streams.token(tenantId, tokenId));
  const rows = stored.filter((row) => tenantOf(row) === tenantId);
  const commits = await readCommits(store, tenantId, rows);
  const keys = new Map<string, { fields: Set<string>; decidedBy: StoredEvent | undefined }>();
  const keyOf = (id: string) => {
    const key = keys.get(id) ?? { fields: new Set<string>(), decidedBy: undefined };
    keys.set(id, key);
    return key;
  };
  let endedBy: StoredEvent | undefined;
  let tokenType: string | undefined;
  for (const row of rows) {
    const { data, cvc, key_ids: decided = [], token_type: type } = JSON.parse(row.data) as Facts;
    // The values of the event were sealed, even if the event does not count.
    for (const [field, sealed] of Object.entries({ data, cvc }))
      if (isSealedValue(sealed)) keyOf(keyIdOf(sealed)).fields.add(field);
    if (!counts(row, commits)) continue;
    for (const id of decided) keyOf(id).decidedBy ??= row;
    if (type !== undefined) tokenType = type;
    if (row.type === 'TokenCreated') endedBy = undefined;
    if (row.type === 'TokenDeleted' || row.type === 'TokenExpired') endedBy = row;
  }
  return tokenType === undefined ? undefined : { tenantId, endedBy, keys, tokenType };
}
