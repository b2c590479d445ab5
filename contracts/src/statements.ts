import type { Json } from './json.ts';

/**
 * What a record says of who may do what, as texts in a fixed order. The command side signs it with a key of the tenant, the event
 * and the read model carry the signature, and whoever decides by the record checks it (ADR 20).
 */
export interface Statement {
  readonly kind: 'application' | 'session' | 'tenant' | 'token' | 'answer';
  /** The tenant is not among them: the key is the tenant's own. */
  readonly texts: readonly string[];
}

/** `m1.<revision of the event in its stream>.<128 bits of HMAC-SHA-256 as base64url>`. */
export const signaturePattern = /^m1\.(0|[1-9]\d{0,9})\.[\w-]{22}$/;

/** The revision that a signature is good for; undefined when it has not the form of one. */
export function revisionOf(signature: string | null | undefined): number | undefined {
  const revision = signaturePattern.exec(signature ?? '')?.[1];
  return revision === undefined ? undefined : Number(revision);
}

/** JSON with properties in the order of their names: Postgres' `jsonb` does not keep the order in which they were written. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );
}

interface StatedGrants {
  readonly permissions: readonly string[];
  readonly rules: readonly object[];
}

export interface StatedApplication extends StatedGrants {
  readonly id: string;
  readonly type: string;
  readonly keyHash: string;
  /** As its author wrote it. */
  readonly expiresAt: string | null | undefined;
}

export const applicationStatement = (application: StatedApplication): Statement => ({
  kind: 'application',
  texts: [
    application.id,
    application.type,
    application.keyHash,
    canonical(application.permissions),
    canonical(application.rules),
    application.expiresAt ?? '',
  ],
});

/** Of a session that is authorized: before that it may do nothing. */
export interface StatedSession extends StatedGrants {
  readonly id: string;
  readonly applicationId: string;
  readonly keyHash: string;
  readonly authorizedBy: string;
  readonly expiresAt: string;
}

export const sessionStatement = (session: StatedSession): Statement => ({
  kind: 'session',
  texts: [
    session.id,
    session.applicationId,
    session.keyHash,
    session.authorizedBy,
    canonical(session.permissions),
    canonical(session.rules),
    session.expiresAt,
  ],
});

export interface StatedTenant {
  readonly plan: string;
  readonly settings: Readonly<Record<string, string>>;
  /** While tokens of the release before signatures are being signed. */
  readonly acceptsUnsigned: boolean;
}

export const tenantStatement = ({ plan, settings, acceptsUnsigned }: StatedTenant): Statement => ({
  kind: 'tenant',
  texts: [plan, canonical(settings), String(acceptsUnsigned)],
});

/** Of a stored answer: for the request of this scope alone, whose caller and operation the scope stands for. */
export const answerStatement = (scope: string, requestId: string, answer: object): Statement => ({
  kind: 'answer',
  texts: [scope, requestId, canonical(answer)],
});

/** As the read model has it: JSON values as texts, times in milliseconds. */
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
}

/** Key id, initialisation vector and tag: they stand for the whole, since the tag is over all of it. */
const identityOf = (sealed: string | null): string =>
  sealed === null ? '' : `${sealed.slice(0, 57)} ${sealed.slice(-22)}`;

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
  ],
});

interface TokenContentLike {
  readonly data: string;
  readonly cvc?: string | undefined;
  readonly cvc_expires_at?: string | undefined;
  readonly mask?: Json | undefined;
  readonly containers: readonly string[];
  readonly search_indexes?: readonly string[] | undefined;
  readonly fingerprint?: string | undefined;
  readonly fingerprint_expression?: string | undefined;
  readonly expires_at?: string | undefined;
}

const asText = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value));

/** The same of a token as its events have it. */
export const tokenStatementOf = (id: string, type: string, content: TokenContentLike): Statement =>
  tokenStatement({
    id,
    type,
    data: content.data,
    cvc: content.cvc ?? null,
    cvcExpiresAtMs: content.cvc_expires_at === undefined ? null : Date.parse(content.cvc_expires_at),
    mask: asText(content.mask),
    container: content.containers[0] ?? '/',
    searchIndexes: asText(content.search_indexes),
    fingerprint: content.fingerprint ?? null,
    fingerprintExpression: content.fingerprint_expression ?? null,
    expiresAt: content.expires_at ?? null,
  });
