import type { TenantContext } from '@token-vault/access';
import { UnavailableError, type Actor, type Permission } from '@token-vault/contracts';
import { equalHashes, TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { setTimeout as delay } from 'node:timers/promises';
import { applicationCaller, callerOfSession, keyed, keyExpiryOf, tenantOf, type Caller } from './caller.ts';
import { callerOfConsole, membersFor } from './console-callers.ts';
import {
  rows,
  type ApplicationRow,
  type ConsoleSessionRow,
  type Pool,
  type SessionRow,
  type TenantRow,
} from './rows.ts';
import {
  EndedError,
  requireApplication,
  requireConsoleSession,
  requireSession,
  requireTenant,
  requireUpgraded,
  RowBehindError,
} from './standing.ts';

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
  /** Undefined for a key that is not valid now. The caller of this method checks the expiry. */
  byKeyHash(hash: string): Promise<Caller | undefined>;
  /** The caller of a request that needs this permission, by the hash of the secret in the cookie of the console. */
  byConsoleSecret(hash: string, permission: Permission | null): Promise<Caller | undefined>;
  /** With `keyHash`: undefined also when the key of that hash is not valid any more. */
  byActor(tenantId: string, actor: Actor, keyHash?: string): Promise<Caller | undefined>;
  tenant(tenantId: string): Promise<TenantContext | undefined>;
}

/** The same time for which the answer of a write waits for the read models. */
const rereadWithinMs = 2_000;
const pauseMs = 20;

/** Looks again while the row is behind the log. Undefined when the log says that the entity has ended. */
async function untilCaughtUp<Found>(look: () => Promise<Found>): Promise<Found | undefined> {
  for (let waitedMs = 0; ; waitedMs += pauseMs) {
    try {
      return await look();
    } catch (error) {
      if (error instanceof EndedError || error instanceof TenantKeysMissingError) return undefined;
      if (!(error instanceof RowBehindError)) throw error;
      if (waitedMs >= rereadWithinMs)
        throw new UnavailableError(
          'The rights of the caller were changed, and this process does not have the change yet.',
        );
    }
    await delay(pauseMs);
  }
}

/** Checks rows against their signatures and against the log. */
function createChecks({ store, keyRing }: Omit<CallerDependencies, 'pool'>) {
  const checkingOf = async (row: TenantRow) => ({
    store,
    hashes: requireUpgraded(await keyRing.hashes(row.tenant_id), row),
  });

  return {
    async tenant(row: TenantRow): Promise<void> {
      await requireTenant(await checkingOf(row), row);
    },
    async application(row: ApplicationRow): Promise<void> {
      const checking = await checkingOf(row);
      await Promise.all([requireTenant(checking, row), requireApplication(checking, row)]);
    },
    async consoleSession(row: ConsoleSessionRow): Promise<void> {
      await requireConsoleSession(await checkingOf(row), row);
    },
    async session(row: SessionRow): Promise<void> {
      await requireSession(await checkingOf(row), row);
    },
  };
}

/** Makes callers from rows, and checks these rows. */
function createMakers({ pool, ...dependencies }: CallerDependencies) {
  const check = createChecks(dependencies);

  async function findApplication(tenantId: string, id: string): Promise<ApplicationRow | undefined> {
    const row = await rows.application(pool, tenantId, id);
    if (row) await check.application(row);
    return row;
  }

  /**
   * The application that opened the session and the one that authorised it must exist, and the keys by which they did so must be valid: a
   * key that was revoked may have been used by a thief. The grants of the second application limit the session. A session of an
   * older release does not say by which keys it came about, so it has ended.
   */
  async function sessionCaller(row: SessionRow): Promise<Caller | undefined> {
    const { opener_key_hash: openerKey, authorizer_key_hash: authorizerKey } = row;
    if (openerKey === null || authorizerKey === null) return undefined;
    const [opener, authorizer] = await Promise.all([
      findApplication(row.tenant_id, row.application_id),
      findApplication(row.tenant_id, row.authorized_by),
      check.session(row),
    ]);
    const byOpener = keyed(opener, openerKey);
    const byAuthorizer = keyed(authorizer, authorizerKey);
    return byOpener && byAuthorizer && callerOfSession(row, byOpener, byAuthorizer);
  }

  async function consoleCaller(
    row: ConsoleSessionRow,
    permission: Permission | null,
  ): Promise<Caller | undefined> {
    const checking = check.consoleSession(row);
    checking.catch(() => undefined);
    let last: Caller | undefined;
    for (const member of membersFor(row, permission)) {
      const application = await findApplication(row.tenant_id, member.application_id).catch(
        (error: unknown) => {
          // The other application of the session may still be valid.
          if (error instanceof EndedError) return undefined;
          throw error;
        },
      );
      const caller = application && applicationCaller(application, member.key_hash);
      if (caller && (last === undefined || caller.expiresAt > last.expiresAt)) last = caller;
    }
    await checking;
    return last && callerOfConsole(row, last);
  }

  return { check, findApplication, sessionCaller, consoleCaller };
}

export function createCallers(dependencies: CallerDependencies): Callers {
  const { pool } = dependencies;
  const { check, findApplication, sessionCaller, consoleCaller } = createMakers(dependencies);

  async function sessionById(tenantId: string, id: string, keyHash?: string): Promise<Caller | undefined> {
    const row = await rows.session(pool, tenantId, id);
    const isCalling = row && (keyHash === undefined || keyExpiryOf(row, keyHash) !== undefined);
    return isCalling ? sessionCaller(row) : undefined;
  }

  /** Only runs of reactors ask for a caller by its id. */
  async function consoleById(tenantId: string, id: string, secretHash?: string): Promise<Caller | undefined> {
    const row = await rows.console(pool, tenantId, id);
    const isCalling = row && (secretHash === undefined || equalHashes(row.secret_hash, secretHash));
    return isCalling ? consoleCaller(row, 'token:use') : undefined;
  }

  return {
    byConsoleSecret: (hash, permission) =>
      untilCaughtUp(async () => {
        const row = await rows.consoleBySecret(pool, hash);
        return row && consoleCaller(row, permission);
      }),
    byKeyHash: (hash) =>
      untilCaughtUp(async () => {
        const row = await rows.byKey(pool, hash);
        if (!row || keyExpiryOf(row, hash) === undefined) return undefined;
        if (row.kind === 'session') return sessionCaller(row);
        await check.application(row);
        return applicationCaller(row, hash);
      }),
    byActor: (tenantId, { kind, id }, keyHash) =>
      untilCaughtUp(async () => {
        if (kind === 'application') {
          const row = await findApplication(tenantId, id);
          return row && applicationCaller(row, keyHash);
        }
        if (kind !== 'session') return undefined;
        return (await sessionById(tenantId, id, keyHash)) ?? consoleById(tenantId, id, keyHash);
      }),
    tenant: (tenantId) =>
      untilCaughtUp(async () => {
        const row = await rows.tenant(pool, tenantId);
        if (!row) return undefined;
        await check.tenant(row);
        return tenantOf(row);
      }),
  };
}
