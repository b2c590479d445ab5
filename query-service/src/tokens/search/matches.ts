import type { Reader } from '../../fair-reads.ts';
import { compile, db, sql, type Sql } from '../../statements.ts';
import { hasIdOf, idsByIndex, isVisible } from '../filters.ts';
import type { TokenScope } from '../queries.ts';
import { t, tokenColumns, type TokenRow } from '../row.ts';
import { searchCondition, type Searched } from './conditions.ts';
import { withoutNegatedData } from './data-terms.ts';
import type { SearchQuery } from './query.ts';

/** A token that a term over data matches, by the index of the read model. */
export interface Match {
  /** The keyed hash of the term. */
  readonly hash: string;
  readonly row: TokenRow;
}

export interface MatchScope {
  readonly reader: Reader;
  readonly scope: TokenScope;
  readonly searched: Searched;
}

/** The terms of which a match is looked for. */
export interface Wanted {
  /** The keyed hashes of the terms. */
  readonly hashes: Iterable<string>;
  /** Tokens that do not give their term. */
  readonly tried: readonly Pick<TokenRow, 'id' | 'created_by'>[];
}

const columns = tokenColumns.join(', ');

/**
 * One match of each wanted term over data, also of a negated one, among the tokens about whose data the answer reveals something. The match
 * that most likely proves the term is taken first, so that nobody hides the tokens of others by many tokens that do not.
 */
export async function findMatches(
  { reader, scope: { tenantId, now, visibility }, searched }: MatchScope,
  query: SearchQuery,
  { hashes, tried }: Wanted,
): Promise<Match[]> {
  const token = db(t.source)
    .select(db.raw(columns))
    .where(isVisible(tenantId, now, visibility))
    .where(searchCondition(withoutNegatedData(query), searched))
    .where(hasIdOf(idsByIndex(sql('term.hash'), searched)))
    .where(sql('? = turn.number', turnOf(tried)))
    .limit(1);
  const ids = tried.map(({ id }) => id);
  if (ids.length > 0) token.where(sql(`${t.id} <> all(?::text[])`, ids));
  const text = `select term.hash, ${columns} from unnest(?::text[]) as term(hash) cross join lateral (
    select ${columns} from generate_series(0, 2) as turn(number) cross join lateral ? t limit 1) t`;
  const { rows } = await reader.query<TokenRow & { readonly hash: string }>(
    compile(sql(text, [...hashes], token)),
  );
  return rows.map(({ hash, ...row }) => ({ hash, row }));
}

/** The later turns are evaluated only when the earlier ones give no token: first plain indexes, then those of other makers than before. */
const turnOf = (tried: Wanted['tried']): Sql =>
  sql(
    `case when ${t.search_indexes} ~ ? and octet_length(${t.data}) <= ? then 0 when ${t.created_by} = any(?::text[]) then 2 else 1 end`,
    plainIndexes,
    plainDataBytes,
    [...new Set(tried.map(({ created_by: maker }) => maker))],
  );

const argument = String.raw`(?:'[^'{}"\\]*'|[0-9]+)`;
const filter = `(?:append|downcase|last4|prepend|remove|reveal_last|stringify|to_string|upcase)(?:: *${argument})?`;
const text = String.raw`"(?:[^"\\{]|\{\{ *data[A-Za-z0-9_.]*(?: *\| *${filter}){0,4} *\}\})*"`;

/**
 * JSON of indexes that need neither the engine nor much time, and give the same value at any time: paths with a few filters. It is a choice of
 * what to try first, not of what is believed.
 */
const plainIndexes = String.raw`^\[${text}(?:,${text})*\]$`;
const plainDataBytes = 16_384;
