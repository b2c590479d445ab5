import type { Principal, TenantContext } from '@token-vault/access';
import { streams, type AccessRule } from '@token-vault/contracts';
import { equalHashes } from '@token-vault/crypto';
import type { ApplicationRow, SessionRow, TenantRow } from './rows.ts';

/** The session of a browser that signed in to the console. */
export interface SignedIn {
  readonly tenantId: string;
  readonly id: string;
  /** When it ends unless it is used before, in milliseconds since 1970. */
  readonly endsAt: number;
}

/** A caller from the read models, checked against its signature and against the log. */
export interface Caller {
  readonly principal: Principal;
  /** Milliseconds since 1970; infinite without an expiry. */
  readonly expiresAt: number;
  /** The streams of the entities that its rights rest on: a revocation of one of them concerns the caller. */
  readonly streams: readonly string[];
  /** Set for a caller that signed in to the console. */
  readonly consoleSession?: SignedIn;
}

const byPriority = (found: readonly AccessRule[]): AccessRule[] =>
  [...found].sort((left, right) => left.priority - right.priority);

const grantsOf = ({ permissions, rules: given }: ApplicationRow | SessionRow) => ({
  permissions,
  rules: byPriority(given),
});

const expiryOf = ({ expires_at_text: text }: ApplicationRow | SessionRow): number =>
  text === null ? Number.POSITIVE_INFINITY : Date.parse(text);

export const tenantOf = (row: TenantRow): TenantContext => ({
  id: row.tenant_id,
  plan: row.plan,
  settings: row.settings,
});

/**
 * When the key of this hash ends, in milliseconds since 1970; infinite without an expiry. Undefined when it is no key of the application or
 * session.
 */
export function keyExpiryOf(row: ApplicationRow | SessionRow, keyHash: string): number | undefined {
  if (row.key_hash !== null && equalHashes(row.key_hash, keyHash)) return Number.POSITIVE_INFINITY;
  const key =
    row.kind === 'application' ? row.keys.find(({ hash }) => equalHashes(hash, keyHash)) : undefined;
  if (!key) return undefined;
  return key.expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(key.expires_at);
}

/** The application with the key by which it calls. */
export interface Keyed {
  readonly row: ApplicationRow;
  readonly keyExpiresAt: number;
}

export function keyed(row: ApplicationRow | undefined, keyHash: string): Keyed | undefined {
  const keyExpiresAt = row && keyExpiryOf(row, keyHash);
  return row && keyExpiresAt !== undefined ? { row, keyExpiresAt } : undefined;
}

const streamsOf = ({ tenant_id: tenantId, id }: ApplicationRow): readonly string[] => [
  streams.tenant(tenantId),
  streams.application(tenantId, id),
];

/** Without `keyHash`: the application itself, in whose name reactor code acts, with its main key if it has one. */
export function applicationCaller(row: ApplicationRow, keyHash?: string): Caller | undefined {
  const key = keyHash ?? row.key_hash ?? undefined;
  const keyExpiresAt = keyHash === undefined ? Number.POSITIVE_INFINITY : keyExpiryOf(row, keyHash);
  if (keyExpiresAt === undefined) return undefined;
  return {
    principal: {
      tenant: tenantOf(row),
      actor: { kind: 'application', id: row.id },
      applicationId: row.id,
      applicationType: row.type,
      ...(key === undefined ? {} : { keyHash: key }),
      ...grantsOf(row),
    },
    expiresAt: Math.min(expiryOf(row), keyExpiresAt),
    streams: streamsOf(row),
  };
}

export const callerOfSession = (row: SessionRow, byOpener: Keyed, byAuthorizer: Keyed): Caller => {
  const { row: opener } = byOpener;
  const { row: authorizer } = byAuthorizer;
  const ends = [
    expiryOf(row),
    ...[byOpener, byAuthorizer].flatMap((by) => [expiryOf(by.row), by.keyExpiresAt]),
  ];
  return {
    principal: {
      tenant: tenantOf(opener),
      actor: { kind: 'session', id: row.id },
      applicationId: opener.id,
      applicationType: opener.type,
      keyHash: row.key_hash,
      ...grantsOf(row),
      authorizedBy: authorizer.id,
      authorizer: grantsOf(authorizer),
    },
    expiresAt: Math.min(...ends),
    streams: [streams.session(opener.tenant_id, row.id), ...new Set([opener, authorizer].flatMap(streamsOf))],
  };
};
