import { streams } from '@token-vault/contracts';
import { isSealedValue, keyIdOf } from '@token-vault/crypto';
import type { Pool } from 'pg';
import { tenantOf, type LogRow } from './log-rows.ts';

/** What the log says of a token: all that was ever sealed of it, and the event that ended it. */
export interface TokenErasure {
  readonly tenantId: string;
  /** Undefined while it is there. */
  readonly endedBy: LogRow | undefined;
  /** By id: which fields were sealed under the data key, and which event decided its destruction. */
  readonly keys: ReadonlyMap<
    string,
    { readonly fields: ReadonlySet<string>; readonly decidedBy: LogRow | undefined }
  >;
  readonly tokenType: string;
}

const columns = 'position::text, stream, revision, version, id::text, type, data::text, metadata::text';

const readStream = async (pool: Pool, stream: string): Promise<LogRow[]> =>
  (
    await pool.query<LogRow>(`select ${columns} from event_store.event where stream = $1 order by revision`, [
      stream,
    ])
  ).rows;

/** Tenants whose log knows a token of this id, erased or not. */
export async function tenantsOfToken(pool: Pool, tokenId: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select name from event_store.stream where name >= 'tenant-' and name < 'tenant.'`,
  );
  const candidates = new Map(
    rows.map(({ name }) => name.slice('tenant-'.length)).map((id) => [streams.token(id, tokenId), id]),
  );
  const found = await pool.query<{ name: string }>(
    'select name from event_store.stream where name = any($1)',
    [[...candidates.keys()]],
  );
  return found.rows.map(({ name }) => candidates.get(name) ?? '');
}

interface Facts {
  readonly data?: unknown;
  readonly cvc?: unknown;
  readonly key_ids?: readonly string[];
  readonly token_type?: string;
}

/** The position of each commit among the transactions that have touched the stream. */
async function readCommits(
  pool: Pool,
  tenantId: string,
  rows: readonly LogRow[],
): Promise<Map<string, bigint>> {
  const enlisting = new Set(rows.map(transactionOf).filter((id) => id !== undefined));
  const commits = new Map<string, bigint>();
  for (const id of enlisting) {
    const events = await readStream(pool, streams.transaction(tenantId, id));
    const committed = events.find(({ type }) => type === 'TransactionCommitted');
    if (committed) commits.set(id, BigInt(committed.position));
  }
  return commits;
}

const transactionOf = (row: LogRow): string | undefined =>
  (JSON.parse(row.metadata) as { transaction_id?: string }).transaction_id;

/** As the aggregate reads it: an enlisted event counts when its transaction was committed after it. */
function counts(row: LogRow, commits: ReadonlyMap<string, bigint>): boolean {
  const transaction = transactionOf(row);
  return transaction === undefined || (commits.get(transaction) ?? -1n) > BigInt(row.position);
}

/** Undefined when the tenant has never had a token of this id. */
export async function readTokenErasure(
  pool: Pool,
  tenantId: string,
  tokenId: string,
): Promise<TokenErasure | undefined> {
  const rows = (await readStream(pool, streams.token(tenantId, tokenId))).filter(
    (row) => tenantOf(row) === tenantId,
  );
  const commits = await readCommits(pool, tenantId, rows);
  const keys = new Map<string, { fields: Set<string>; decidedBy: LogRow | undefined }>();
  const keyOf = (id: string) => {
    const key = keys.get(id) ?? { fields: new Set<string>(), decidedBy: undefined };
    keys.set(id, key);
    return key;
  };
  let endedBy: LogRow | undefined;
  let tokenType: string | undefined;
  for (const row of rows) {
    const { data, cvc, key_ids: decided = [], token_type: type } = JSON.parse(row.data) as Facts;
    // Whatever became of the event: what it brought was sealed.
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
