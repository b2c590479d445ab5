import { hashDomains } from '@token-vault/contracts';
import { isErased, type KeyRing } from '@token-vault/crypto';
import {
  evaluateSearchIndexes,
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  type Expressions,
} from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { openLastingData } from '@token-vault/tokens';
import type { TokenRow } from '../row.ts';
import { requireSignedRows } from '../signed-rows.ts';
import { Turns } from '../turns.ts';
import { dataTermsOf } from './data-terms.ts';
import { findMatches, type MatchScope, type Wanted } from './matches.ts';
import type { SearchQuery } from './query.ts';

export interface MatchDependencies {
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly expressions: Expressions;
}

/** Matches of one term that are tried, each by a statement of its own. */
const mostTries = 5;

/**
 * The keyed hashes of terms that match tokens of which none proves the term: its row is as it was written, and its data gives the value.
 * Nobody signs the hashes beside a token, and a total counts rows that no page shows (ADR 20). One token is enough: whoever reads the database
 * finds the hash of its value there, and so all tokens with this value.
 * @throws AlteredRecordError for a row that was changed; ExpressionsBusyError
 */
export async function findUnproven(
  dependencies: MatchDependencies,
  scope: MatchScope,
  query: SearchQuery,
  context: RequestContext,
): Promise<ReadonlySet<string>> {
  const unproven = new Set<string>();
  let wanted: Wanted = { hashes: dataTermsOf(query, scope.searched), tried: [] };
  for (let tries = 0; tries < mostTries; tries += 1) {
    const matches = await findMatches(scope, query, wanted);
    for (const { hash } of matches) unproven.add(hash);
    const rows = [...new Map(matches.map(({ row }) => [row.id, row])).values()];
    for (const hash of await hashesOf(dependencies, rows, context)) unproven.delete(hash);
    const failed = matches.filter(({ hash }) => unproven.has(hash));
    if (failed.length === 0) break;
    const tried = failed.map(({ row: { id, created_by } }) => ({ id, created_by }));
    wanted = { hashes: failed.map(({ hash }) => hash), tried: [...wanted.tried, ...tried] };
  }
  return unproven;
}

/**
 * The keyed hashes of the values that the data of the rows gives. The expressions share the budget of the request: else one search could
 * keep the workers of its tenant busy for as long as it has terms. A token whose expressions do not fit into it, or whose keys are gone, gives nothing.
 */
async function hashesOf(
  { keyRing, expressions }: MatchDependencies,
  rows: readonly TokenRow[],
  { principal: { tenant }, identity }: RequestContext,
): Promise<readonly string[]> {
  await requireSignedRows(keyRing, tenant, rows);
  const turns = new Turns();
  const hashes = await keyRing.hashes(tenant.id);
  const budget = expressions.of(identity, tenant.id);

  async function of(row: TokenRow): Promise<readonly string[]> {
    const indexes = row.search_indexes === null ? [] : (JSON.parse(row.search_indexes) as string[]);
    const data = await openLastingData(keyRing, { tenantId: tenant.id, tokenId: row.id }, row);
    await turns.take(row.data.length);
    const values = await evaluateSearchIndexes(budget, indexes, data.expose());
    return values.map((value) => hashes.blindIndex(hashDomains.searchIndex, value));
  }

  return (await Promise.all(rows.map((row) => of(row).catch(nothingIfNotGiven)))).flat();
}

function nothingIfNotGiven(error: unknown): [] {
  if (isErased(error) || error instanceof ExpressionEvaluationError || error instanceof ExpressionSyntaxError)
    return [];
  throw error;
}
