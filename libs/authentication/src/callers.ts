import type { Principal, TenantContext } from '@token-vault/access';
import { UnavailableError, type AccessRule, type Actor } from '@token-vault/contracts';
import { equalHashes, TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { rows, type ApplicationRow, type Pool, type SessionRow, type TenantRow } from './rows.ts';
import {
  EndedError,
  requireApplication,
  requireSession,
  requireTenant,
  requireUpgraded,
  RowBehindError,
} from './standing.ts';

/** A caller from the read models, checked against its signature and against the log. */
export interface Caller {
  readonly principal: Principal;
  /** Milliseconds since 1970; infinite without an expiry. */
  readonly expiresAt: number;
  /** The rows that were checked to identify the caller. */
  readonly rows: readonly (ApplicationRow | SessionRow)[];
}

export interface CallerDependencies {
  readonly pool: Pool;
  readonly store: Pick<EventStore, 'readStream'>;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

/**
 * The only place where a principal is made from rows (architecture.md, Laws).
 * Each method throws AlteredRecordError for a row that is not as the vault wrote it, and UnavailableError for a row that stays behind the
 * log.
 */
export interface Callers {
  /**
   * Undefined for a key that is not valid now. The caller of this method checks the expiry. Rows that are equal to those of `checked` are
   * not checked again; `checked` must come from the same request.
   */
  byKeyHash(hash: string, checked?: Caller): Promise<Caller | undefined>;
  /** With `keyHash`: undefined also when the key of that hash is not valid any more. */
  byActor(tenantId: string, actor: Actor, keyHash?: string): Promise<Caller | undefined>;
  tenant(tenantId: string): Promise<TenantContext | undefined>;
}

const byPriority = (found: readonly AccessRule[]): AccessRule[] =>
  [...found].sort((left, right) => left.priority - right.priority);

const grantsOf = ({ permissions, rules: given }: ApplicationRow | SessionRow) => ({
  permissions,
  rules: byPriority(given),
});

const expiryOf = ({ expires_at_text: text }: ApplicationRow | SessionRow): number =>
  text === null ? Number.POSITIVE_INFINITY : Date.parse(text);

const tenantOf = (row: TenantRow): TenantContext => ({
  id: row.tenant_id,
  plan: row.plan,
  settings: row.settings,
});

const isAmong = (row: ApplicationRow | SessionRow, checked: Caller | undefined): boolean =>
  checked?.rows.some((known) => isDeepStrictEqual(known, row)) ?? false;

/**
 * When the key of this hash ends, in milliseconds since 1970; infinite without an expiry. Undefined when it is no key of the application or
 * session.
 */
function keyExpiryOf(row: ApplicationRow | SessionRow, keyHash: string): number | undefined {
  if (row.key_hash !== null && equalHashes(row.key_hash, keyHash)) return Number.POSITIVE_INFINITY;
  const key =
    row.kind === 'application' ? row.keys.find(({ hash }) => equalHashes(hash, keyHash)) : undefined;
  if (!key) return undefined;
  return key.expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(key.expires_at);
}

/** The application with the key by which it calls. */
interface Keyed {
  readonly row: ApplicationRow;
  readonly keyExpiresAt: number;
}

function keyed(row: ApplicationRow | undefined, keyHash: string): Keyed | undefined {
  const keyExpiresAt = row && keyExpiryOf(row, keyHash);
  return row && keyExpiresAt !== undefined ? { row, keyExpiresAt } : undefined;
}

/** Without `keyHash`: the application itself, in whose name reactor code acts, with its main key if it has one. */
function applicationCaller(row: ApplicationRow, keyHash?: string): Caller | undefined {
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
    rows: [row],
  };
}

const callerOfSession = (row: SessionRow, byOpener: Keyed, byAuthorizer: Keyed): Caller => {
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
    rows: [row, opener, authorizer],
  };
};

/** As long as a write waits for the read models before its answer is given as pending. */
const rereadWithinMs = 2_000;
const pauseMs = 20;

/** Looks again while the row is behind the log. Undefined when the log says that the entity has ended. */
async function patiently<Found>(look: () => Promise<Found>): Promise<Found | undefined> {
  for (let waitedMs = 0; ; waitedMs += pauseMs) {
    try {
      return await look();
    } catch (error) {
      if (error instanceof EndedError || error instanceof TenantKeysMissingError) return undefined;
      if (!(error instanceof RowBehindError)) throw error;
      if (waitedMs >= rereadWithinMs)
        throw new UnavailableError('What the caller may do was changed and is not known here yet.');
    }
    await delay(pauseMs);
  }
}

/** Checks rows against their signatures and against the log. Rows of `checked` are not checked again. */
function createChecks({ store, keyRing }: Omit<CallerDependencies, 'pool'>) {
  const checkingOf = async (row: TenantRow) => ({
    store,
    hashes: requireUpgraded(await keyRing.hashes(row.tenant_id), row),
  });

  return {
    async tenant(row: TenantRow): Promise<void> {
      await requireTenant(await checkingOf(row), row);
    },
    async application(row: ApplicationRow, checked: Caller | undefined): Promise<void> {
      if (isAmong(row, checked)) return;
      const checking = await checkingOf(row);
      await Promise.all([requireTenant(checking, row), requireApplication(checking, row)]);
    },
    async session(row: SessionRow, checked: Caller | undefined): Promise<void> {
      if (!isAmong(row, checked)) await requireSession(await checkingOf(row), row);
    },
  };
}

export function createCallers({ pool, ...dependencies }: CallerDependencies): Callers {
  const check = createChecks(dependencies);

  async function findApplication(
    tenantId: string,
    id: string,
    checked?: Caller,
  ): Promise<ApplicationRow | undefined> {
    const row = await rows.application(pool, tenantId, id);
    if (row) await check.application(row, checked);
    return row;
  }

  /**
   * The application that opened the session and the one that authorised it must exist, and the keys by which they did so must be valid: a
   * key that was revoked may have been used by a thief. The grants of the second application limit the session. A session of an
   * older release does not say by which keys it came about, so it has ended.
   */
  async function sessionCaller(row: SessionRow, checked?: Caller): Promise<Caller | undefined> {
    const { opener_key_hash: openerKey, authorizer_key_hash: authorizerKey } = row;
    if (openerKey === null || authorizerKey === null) return undefined;
    const [opener, authorizer] = await Promise.all([
      findApplication(row.tenant_id, row.application_id, checked),
      findApplication(row.tenant_id, row.authorized_by, checked),
      check.session(row, checked),
    ]);
    const byOpener = keyed(opener, openerKey);
    const byAuthorizer = keyed(authorizer, authorizerKey);
    return byOpener && byAuthorizer && callerOfSession(row, byOpener, byAuthorizer);
  }

  return {
    byKeyHash: (hash, checked) =>
      patiently(async () => {
        const row = await rows.byKey(pool, hash);
        if (!row || keyExpiryOf(row, hash) === undefined) return undefined;
        if (row.kind === 'session') return sessionCaller(row, checked);
        await check.application(row, checked);
        return applicationCaller(row, hash);
      }),
    byActor: (tenantId, { kind, id }, keyHash) =>
      patiently(async () => {
        if (kind === 'application') {
          const row = await findApplication(tenantId, id);
          return row && applicationCaller(row, keyHash);
        }
        const row = kind === 'session' ? await rows.session(pool, tenantId, id) : undefined;
        const isCalling = row && (keyHash === undefined || keyExpiryOf(row, keyHash) !== undefined);
        return isCalling ? sessionCaller(row) : undefined;
      }),
    tenant: (tenantId) =>
      patiently(async () => {
        const row = await rows.tenant(pool, tenantId);
        if (!row) return undefined;
        await check.tenant(row);
        return tenantOf(row);
      }),
  };
}
