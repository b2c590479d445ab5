import type { Principal, TenantContext } from '@token-vault/access';
import { UnavailableError, type AccessRule, type Actor } from '@token-vault/contracts';
import { equalHashes, TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { setTimeout as delay } from 'node:timers/promises';
import { rows, type ApplicationRow, type Pool, type SessionRow, type TenantRow } from './rows.ts';
import {
  EndedError,
  requireApplication,
  requireSession,
  requireTenant,
  requireUpgraded,
  RowBehindError,
} from './standing.ts';

/** A caller as the read models have it, held against what was signed and against the log. */
export interface Caller {
  readonly principal: Principal;
  /** Milliseconds since 1970; infinite without an expiry. */
  readonly expiresAt: number;
}

export interface CallerDependencies {
  readonly pool: Pool;
  readonly store: Pick<EventStore, 'readStream'>;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

/**
 * Who a caller is: the one place where a principal is made of rows (architecture.md, Laws).
 * Each throws AlteredRecordError for a row that is not as the vault wrote it, UnavailableError for one that stays behind the log.
 */
export interface Callers {
  /** Undefined for a key that is not valid now. Expiry is the asker's to judge. */
  byKeyHash(hash: string): Promise<Caller | undefined>;
  byActor(tenantId: string, actor: Actor): Promise<Caller | undefined>;
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

const applicationCaller = (row: ApplicationRow): Caller => ({
  principal: {
    tenant: tenantOf(row),
    actor: { kind: 'application', id: row.id },
    applicationId: row.id,
    applicationType: row.type,
    ...grantsOf(row),
  },
  expiresAt: expiryOf(row),
});

/** As long as a read model may take to show a write before its answer is given as pending. */
const rereadWithinMs = 2_000;
const pauseMs = 20;

/** Undefined when the log says that it has ended; again while the row is behind the log. */
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

export function createCallers({ pool, store, keyRing }: CallerDependencies): Callers {
  async function checkingOf(row: TenantRow) {
    return { store, hashes: requireUpgraded(await keyRing.hashes(row.tenant_id), row) };
  }

  async function checkedApplication(row: ApplicationRow): Promise<ApplicationRow> {
    const checking = await checkingOf(row);
    await Promise.all([requireTenant(checking, row), requireApplication(checking, row)]);
    return row;
  }

  async function findApplication(tenantId: string, id: string): Promise<ApplicationRow | undefined> {
    const row = await rows.application(pool, tenantId, id);
    return row && checkedApplication(row);
  }

  /** Its opener and its authorizer must be there, and its authorizer bounds it. */
  async function sessionCaller(row: SessionRow): Promise<Caller | undefined> {
    const checking = await checkingOf(row);
    const [opener, authorizer] = await Promise.all([
      findApplication(row.tenant_id, row.application_id),
      findApplication(row.tenant_id, row.authorized_by),
      requireSession(checking, row),
    ]);
    if (!opener || !authorizer) return undefined;
    return {
      principal: {
        tenant: tenantOf(opener),
        actor: { kind: 'session', id: row.id },
        applicationId: opener.id,
        applicationType: opener.type,
        ...grantsOf(row),
        authorizedBy: authorizer.id,
        authorizer: grantsOf(authorizer),
      },
      expiresAt: Math.min(expiryOf(row), expiryOf(opener), expiryOf(authorizer)),
    };
  }

  return {
    byKeyHash: (hash) =>
      patiently(async () => {
        const row = await rows.byKey(pool, hash);
        if (!row || !equalHashes(row.key_hash, hash)) return undefined;
        return row.kind === 'session' ? sessionCaller(row) : applicationCaller(await checkedApplication(row));
      }),
    byActor: (tenantId, { kind, id }) =>
      patiently(async () => {
        if (kind === 'application') {
          const row = await findApplication(tenantId, id);
          return row && applicationCaller(row);
        }
        const row = kind === 'session' ? await rows.session(pool, tenantId, id) : undefined;
        return row && sessionCaller(row);
      }),
    tenant: (tenantId) =>
      patiently(async () => {
        const row = await rows.tenant(pool, tenantId);
        if (!row) return undefined;
        await requireTenant(await checkingOf(row), row);
        return tenantOf(row);
      }),
  };
}
