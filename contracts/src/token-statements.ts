import type { Json } from './json.ts';
import { canonical, identityOf, type Statement } from './statements.ts';

/** The token as the read model has it: JSON values as texts, times in milliseconds. */
export interface StatedToken {
  readonly id: string;
  readonly type: string;
  readonly data: string;
  readonly cvc: string | null;
  readonly cvcExpiresAtMs: number | null;
  readonly mask: string | null;
  readonly container: string;
  readonly searchIndexes: string | null;
  readonly fingerprint: string | null;
  readonly fingerprintExpression: string | null;
  readonly expiresAt: string | null;
  readonly setWithoutSight: string | null;
  readonly createdBy: string;
  /** RFC 3339 in UTC with milliseconds, as is `modifiedAt`. */
  readonly createdAt: string;
  /** Null while the token is as it was created. */
  readonly modifiedBy: string | null;
  readonly modifiedAt: string | null;
}

export const tokenStatement = (token: StatedToken): Statement => ({
  kind: 'token',
  texts: [
    token.id,
    token.type,
    identityOf(token.data),
    identityOf(token.cvc),
    String(token.cvcExpiresAtMs),
    token.mask ?? '',
    token.container,
    token.searchIndexes ?? '',
    token.fingerprint ?? '',
    token.fingerprintExpression ?? '',
    token.expiresAt ?? '',
    // Most tokens have no such fields. Neither have tokens of older releases, so their signatures stay valid.
    ...(token.setWithoutSight === null ? [] : [token.setWithoutSight]),
  ],
  // They say which token of this id it is, and whether others have changed it. The type of an event and its metadata say no more than this.
  added: [token.createdBy, token.createdAt, token.modifiedBy ?? '', token.modifiedAt ?? ''],
});

/**
 * The keyed hashes by which a search finds the token, as the vault computed them when it wrote the token. They have a signature of their own, so
 * that only searches need them: for `data` sealed once, and these expressions.
 */
export const searchIndexStatement = (
  { id, data, searchIndexes }: Pick<StatedToken, 'id' | 'data' | 'searchIndexes'>,
  hashes: readonly string[],
): Statement => ({
  kind: 'search indexes',
  texts: [id, identityOf(data), searchIndexes ?? '', ...hashes.toSorted()],
});

interface TokenContentLike {
  readonly data: string;
  readonly cvc?: string | undefined;
  readonly cvc_expires_at?: string | undefined;
  readonly mask?: Json | undefined;
  readonly containers: readonly string[];
  readonly search_indexes?: readonly string[] | undefined;
  readonly index_hashes?: readonly string[] | undefined;
  readonly fingerprint?: string | undefined;
  readonly fingerprint_expression?: string | undefined;
  readonly expires_at?: string | undefined;
  readonly set_without_sight?: object | undefined;
}

interface TokenLike {
  readonly id: string;
  readonly type: string;
  readonly content: TokenContentLike;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly modifiedBy?: string | undefined;
  readonly modifiedAt?: string | undefined;
}

const asText = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value));

/** A token has one container. Rights hold by any of them, so one that was added to an event must not fit its signature. */
const containerOf = (containers: readonly string[]): string =>
  containers.length > 1 ? canonical(containers) : (containers[0] ?? '/');

/** The statement of the search indexes of a token, from an event that has its whole content. Undefined when no search by data finds the token. */
export const searchIndexStatementOf = (
  id: string,
  {
    data,
    search_indexes,
    index_hashes: hashes = [],
  }: Pick<TokenContentLike, 'data' | 'search_indexes' | 'index_hashes'>,
): Statement | undefined =>
  hashes.length === 0
    ? undefined
    : searchIndexStatement({ id, data, searchIndexes: asText(search_indexes) }, hashes);

/** The statement of a token, from its events. */
export const tokenStatementOf = ({ content, ...token }: TokenLike): Statement =>
  tokenStatement({
    id: token.id,
    type: token.type,
    data: content.data,
    cvc: content.cvc ?? null,
    cvcExpiresAtMs: content.cvc_expires_at === undefined ? null : Date.parse(content.cvc_expires_at),
    mask: asText(content.mask),
    container: containerOf(content.containers),
    searchIndexes: asText(content.search_indexes),
    fingerprint: content.fingerprint ?? null,
    fingerprintExpression: content.fingerprint_expression ?? null,
    expiresAt: content.expires_at ?? null,
    setWithoutSight: asText(content.set_without_sight),
    createdBy: token.createdBy,
    createdAt: token.createdAt,
    modifiedBy: token.modifiedBy ?? null,
    modifiedAt: token.modifiedAt ?? null,
  });
