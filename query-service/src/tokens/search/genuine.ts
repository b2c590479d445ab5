import { holderOf } from '@token-vault/access';
import { hashDomains, searchIndexStatement } from '@token-vault/contracts';
import { isErased, type KeyRing, type TenantHashes } from '@token-vault/crypto';
import {
  evaluateSearchIndexes,
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  type Expressions,
} from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { openLastingData } from '@token-vault/tokens';
import { requireSignedRows } from '../signed-rows.ts';
import { Turns } from '../turns.ts';
import { findMatches, type Match, type MatchScope } from './matches.ts';
import type { SearchQuery } from './query.ts';

export interface MatchDependencies {
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly expressions: Expressions;
}

/**
 * The keyed hashes of terms that match tokens of which none proves the term: its row, and the hashes beside it, are as the vault wrote them.
 * The total counts rows that no page shows, so one match of each term is checked (ADR 20). One is enough: a reader of the database finds
 * the hash of its value there, and so all tokens with this value.
 * @throws AlteredRecordError for a row that was changed; ExpressionsBusyError
 */
export async function findUnproven(
  dependencies: MatchDependencies,
  scope: MatchScope,
  query: SearchQuery,
  context: RequestContext,
): Promise<ReadonlySet<string>> {
  const matches = await findMatches(scope, query);
  if (matches.length === 0) return new Set();
  const { keyRing } = dependencies;
  const { tenant } = context.principal;
  await requireSignedRows(keyRing, tenant, matches);
  const hashes = await keyRing.hashes(tenant.id);
  const unsigned = matches.filter(({ index_signature: signature }) => signature === null);
  const given = await valuesGivenBy(dependencies, unsigned, context);
  const unproven = matches.filter((match) =>
    match.index_signature === null ? !given.has(match.hash) : !isAsWritten(match, hashes),
  );
  return new Set(unproven.map(({ hash }) => hash));
}

/** An alteration is counted and logged. */
const isAsWritten = (match: Match, hashes: TenantHashes): boolean =>
  hashes.isSigned(
    searchIndexStatement({ ...match, searchIndexes: match.search_indexes }, match.index_hashes),
    match.index_signature,
  );

/**
 * The keyed hashes of the values that the data of tokens gives whose hashes a release wrote that did not sign them. The expressions share the
 * budget of the request. A token whose expressions do not fit into it, or whose keys are gone, gives nothing.
 */
async function valuesGivenBy(
  { keyRing, expressions }: MatchDependencies,
  matches: readonly Match[],
  { principal, identity }: RequestContext,
): Promise<ReadonlySet<string>> {
  const { tenant } = principal;
  const turns = new Turns();
  const hashes = await keyRing.hashes(tenant.id);
  const budget = expressions.of(identity, holderOf(principal));

  async function of(match: Match): Promise<readonly string[]> {
    const indexes = match.search_indexes === null ? [] : (JSON.parse(match.search_indexes) as string[]);
    const data = await openLastingData(keyRing, { tenantId: tenant.id, tokenId: match.id }, match);
    await turns.take(match.data.length);
    const values = await evaluateSearchIndexes(budget, indexes, data.expose());
    return values.map((value) => hashes.blindIndex(hashDomains.searchIndex, value));
  }

  const tokens = [...new Map(matches.map((match) => [match.id, match])).values()];
  const given = await Promise.all(tokens.map((token) => of(token).catch(nothingIfNotGiven)));
  return new Set(given.flat());
}

function nothingIfNotGiven(error: unknown): [] {
  if (isErased(error) || error instanceof ExpressionEvaluationError || error instanceof ExpressionSyntaxError)
    return [];
  throw error;
}
