import type { Json } from './json.ts';
import type { EventMetadata } from './metadata.ts';

/**
 * What a record says of who may do what, as texts in a fixed order. The command side signs it with a key of the tenant, the event
 * and the read model carry the signature, and whoever decides by the record checks it (ADR 20).
 */
export interface Statement {
  readonly kind: 'application' | 'session' | 'tenant' | 'token' | 'reactor' | 'invocation' | 'answer';
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

/** The signature of an event, if it is the one for its place in the stream: a copy of an older event has none. */
export function signatureOf(event: { readonly data: object; readonly revision: number }): string | undefined {
  const { signature } = event.data as { readonly signature?: unknown };
  return typeof signature === 'string' && revisionOf(signature) === event.revision ? signature : undefined;
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
  /** Nothing is decided by it: the keys of the tenant tell (ADR 20). */
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

export interface StatedReactor {
  readonly id: string;
  readonly name: string;
  readonly code: string;
  readonly configuration: string;
  readonly applicationId: string | null | undefined;
}

/** The code of a reactor is given plaintext, so all that it is made of decides. */
export const reactorStatement = (reactor: StatedReactor): Statement => ({
  kind: 'reactor',
  texts: [
    reactor.id,
    reactor.name,
    reactor.code,
    identityOf(reactor.configuration),
    reactor.applicationId ?? '',
  ],
});

interface InvocationLike {
  readonly invocation_id: string;
  readonly reactor_id: string;
  readonly reactor_revision: number;
  readonly mode: string;
  readonly args: string;
  readonly token_ids: readonly string[];
  readonly timeout_ms: number;
  readonly callback_url?: string | undefined;
  readonly depth: number;
}

/** Which code runs, with what, in whose name, and where its result goes. */
export const invocationStatement = (
  invoked: InvocationLike,
  { actor, application_id: applicationId }: Pick<EventMetadata, 'actor' | 'application_id'>,
): Statement => ({
  kind: 'invocation',
  texts: [
    invoked.invocation_id,
    invoked.reactor_id,
    String(invoked.reactor_revision),
    invoked.mode,
    identityOf(invoked.args),
    canonical(invoked.token_ids),
    String(invoked.timeout_ms),
    identityOf(invoked.callback_url ?? null),
    String(invoked.depth),
    actor.kind,
    actor.id,
    applicationId ?? '',
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
