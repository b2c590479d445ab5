import type { EventMetadata } from './metadata.ts';

/**
 * The content of a record that decides about access, as texts in a fixed order. The command side signs it with a key of the tenant. The
 * event and the read model carry the signature. Code that decides by the record checks the signature (ADR 20).
 */
export interface Statement {
  readonly kind:
    | 'application'
    | 'session'
    | 'opened session'
    | 'console session'
    | 'tenant'
    | 'token'
    | 'search indexes'
    | 'reactor'
    | 'proxy'
    | 'invocation'
    | 'answer';
  /** The tenant is not among the texts, because the signing key belongs to the tenant. */
  readonly texts: readonly string[];
  /**
   * Texts that signatures of form 2 cover as well. Those of form 1 are of older releases and do not. A statement without them has form 1
   * alone.
   */
  readonly added?: readonly string[];
}

/** `m<form>.<revision of the event in its stream>.<128 bits of HMAC-SHA-256 as base64url>`. The form is 1 or 2 (`Statement.added`). */
export const signaturePattern = /^m[12]\.(0|[1-9]\d{0,9})\.[\w-]{22}$/;

/** The revision that a signature belongs to; undefined when the text is not a signature. */
export function revisionOf(signature: string | null | undefined): number | undefined {
  const revision = signaturePattern.exec(signature ?? '')?.[1];
  return revision === undefined ? undefined : Number(revision);
}

/** The signature of an event, if it belongs to the event's revision. The signature of a copied older event does not. */
export function signatureOf(event: { readonly data: object; readonly revision: number }): string | undefined {
  const { signature } = event.data as { readonly signature?: unknown };
  return typeof signature === 'string' && revisionOf(signature) === event.revision ? signature : undefined;
}

/** JSON with properties sorted by name: `jsonb` of Postgres does not keep the original order. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );
}

export interface StatedGrants {
  readonly permissions: readonly string[];
  readonly rules: readonly object[];
}

export interface StatedApplication extends StatedGrants {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  /** The main key. Unset when it was deleted. */
  readonly keyHash: string | null | undefined;
  /** Unset for a main key of an application that never got another key: it has the id of its application. */
  readonly keyId: string | null | undefined;
  /** All keys but the main one. */
  readonly keys: readonly object[];
  /** In the form in which the author wrote it. */
  readonly expiresAt: string | null | undefined;
}

/** Empty for an application with one key that was never replaced, so that signatures of older releases stay valid. */
const statedKeys = ({ keyId, keys }: StatedApplication): string[] =>
  (keyId === null || keyId === undefined) && keys.length === 0
    ? []
    : [canonical({ main: keyId ?? null, others: keys })];

export const applicationStatement = (application: StatedApplication): Statement => ({
  kind: 'application',
  texts: [
    application.id,
    application.type,
    application.keyHash ?? '',
    canonical(application.permissions),
    canonical(application.rules),
    application.expiresAt ?? '',
    ...statedKeys(application),
  ],
  // An administrator finds the application by its name, and gives it rights.
  added: [application.name],
});

export interface StatedTenant {
  readonly plan: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Not used for decisions: the tenant's keys decide whether unsigned records are accepted (ADR 20). */
  readonly acceptsUnsigned: boolean;
}

export const tenantStatement = ({ plan, settings, acceptsUnsigned }: StatedTenant): Statement => ({
  kind: 'tenant',
  texts: [plan, canonical(settings), String(acceptsUnsigned)],
});

/** A stored answer is bound to the scope of its request, which contains the caller and the operation. */
export const answerStatement = (scope: string, requestId: string, answer: object): Statement => ({
  kind: 'answer',
  texts: [scope, requestId, canonical(answer)],
});

/** Key id, initialisation vector and tag identify the sealed value, because the tag covers all of it. */
export const identityOf = (sealed: string | null): string =>
  sealed === null ? '' : `${sealed.slice(0, 57)} ${sealed.slice(-22)}`;

export interface StatedReactor {
  readonly id: string;
  readonly name: string;
  readonly code: string;
  readonly configuration: string;
  readonly applicationId: string | null | undefined;
}

/** The code of a reactor receives plaintext, so every part of the reactor is signed. */
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

export interface StatedProxy {
  readonly id: string;
  readonly name: string;
  readonly destination: string;
  readonly destinations: readonly string[];
  readonly requestCode: string | null | undefined;
  readonly responseCode: string | null | undefined;
  readonly requireAuth: boolean;
  readonly configuration: string;
  readonly applicationId: string | null | undefined;
  readonly keys: readonly object[];
}

/** A proxy decides the destination of plaintext, the code that handles it and the callers, so every part of the proxy is signed. */
export const proxyStatement = (proxy: StatedProxy): Statement => ({
  kind: 'proxy',
  texts: [
    proxy.id,
    proxy.name,
    proxy.destination,
    canonical(proxy.destinations),
    proxy.requestCode ?? '',
    proxy.responseCode ?? '',
    String(proxy.requireAuth),
    identityOf(proxy.configuration),
    proxy.applicationId ?? '',
    canonical(proxy.keys),
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
  readonly key_hash?: string | undefined;
  readonly parents?: string | undefined;
}

/** Signs which code runs, with which arguments, for which caller, when it was asked for, and where the result is sent. */
export const invocationStatement = (
  invoked: InvocationLike,
  {
    actor,
    application_id,
    reason,
    occurred_at,
  }: Pick<EventMetadata, 'actor' | 'application_id' | 'reason' | 'occurred_at'>,
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
    application_id ?? '',
    // Older releases signed invocations without the hash of the caller's key.
    ...(invoked.key_hash === undefined ? [] : [invoked.key_hash]),
    // No hash of a key has this form. It is signed, because a rule may open the tokens of the run only with a reason.
    ...(reason === undefined ? [] : [`reason: ${reason}`]),
    ...(invoked.parents === undefined ? [] : [`parents: ${identityOf(invoked.parents)}`]),
  ],
  // Tokens that have ended since this time decide about the result.
  added: [occurred_at],
});
