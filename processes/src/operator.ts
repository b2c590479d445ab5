import { readHousekeepingProgress, type VaultOperator } from '@token-vault/command-service';
import {
  AlteredRecordError,
  streams,
  type ProjectionAction,
  type VaultOperations,
} from '@token-vault/contracts';
import { readRotationState } from '@token-vault/crypto';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import {
  createProjectionAdmin,
  readProjectionStatus,
  RebuildUnderWayError,
  type ProjectionAdmin,
  type ProjectionStatus,
  type RebuildStatus,
} from '@token-vault/projectors';
import type { VaultState } from '@token-vault/query-service';
import type pg from 'pg';
import type { ProcessContext } from './data.ts';
import type { LimitConfig } from './limits.ts';
import { behindOf, stalledSecondsOf } from './projection-lag.ts';
import { release } from './release.ts';

interface OperatorParts {
  readonly store: EventStore;
  readonly readPool: pg.Pool;
}

/** A log that other applications share may begin with many events of theirs. */
const mostEventsBeforeTenant = 10_000;

/** @throws AlteredRecordError when the first creation of a tenant is not in the stream of that tenant */
async function firstTenantOf(store: Pick<EventStore, 'readAll'>): Promise<string | undefined> {
  let seen = 0;
  for await (const { type, data, metadata, stream } of store.readAll(startPosition)) {
    if (type === 'TenantCreated') {
      const { tenant_id: tenantId } = data;
      if (tenantId !== metadata.tenant_id || stream !== streams.tenant(tenantId))
        throw new AlteredRecordError('tenant');
      return tenantId;
    }
    if ((seen += 1) >= mostEventsBeforeTenant) break;
  }
  return undefined;
}

/** Which tenant is the first one is not signed. So a false answer, while an attacker has changed the log, lasts no longer. */
const keptMs = 60_000;

/**
 * The tenant that operates the vault: the one of the setting, else the first of the log. The log decides, because an attacker who changed a read
 * model could make any tenant the first one.
 */
export function createOperatorTenant(
  store: Pick<EventStore, 'readAll'>,
  setting: string | undefined,
  nowMs = () => performance.now(),
): () => Promise<string | undefined> {
  let kept: { readonly tenantId: string; readonly untilMs: number } | undefined;
  return async () => {
    if (setting !== undefined) return setting;
    if (kept && nowMs() < kept.untilMs) return kept.tenantId;
    const tenantId = await firstTenantOf(store);
    kept = tenantId === undefined ? undefined : { tenantId, untilMs: nowMs() + keptMs };
    return tenantId;
  };
}

const failureOf = ({ errorCode, errorEventId }: ProjectionStatus | RebuildStatus) =>
  errorCode === undefined
    ? {}
    : { error: { code: errorCode, ...(errorEventId === undefined ? {} : { event_id: errorEventId }) } };

const progressOf = ({ position }: RebuildStatus, head: string): number =>
  head === '0' ? 1 : Math.min(1, Number(position) / Number(head));

function present(status: ProjectionStatus, head: string): VaultOperations['projections'][number] {
  const { rebuild } = status;
  return {
    name: status.name,
    status: status.status,
    behind: behindOf(status, BigInt(head)),
    stalled_seconds: stalledSecondsOf(status, BigInt(head)),
    version: status.version,
    position: status.position,
    updated_at: status.updatedAt.toISOString(),
    ...failureOf(status),
    ...(rebuild && {
      rebuild: {
        purpose: rebuild.purpose,
        version: rebuild.version,
        status: rebuild.status,
        position: rebuild.position,
        progress: progressOf(rebuild, head),
        started_at: rebuild.startedAt.toISOString(),
        updated_at: rebuild.updatedAt.toISOString(),
        ...failureOf(rebuild),
      },
    }),
  };
}

/** Rebuilds that this process began by a request. They end with the process; the next `rebuild` continues them. */
class Rebuilds {
  readonly #admin: ProjectionAdmin;
  readonly #logger: Logger;
  readonly #abort = new AbortController();
  readonly #running = new Map<string, Promise<void>>();

  constructor(admin: ProjectionAdmin, logger: Logger) {
    this.#admin = admin;
    this.#logger = logger;
  }

  /** True when the rebuild has begun, or is done already; false when one is under way. */
  async begin(name: string): Promise<boolean> {
    if (this.#running.has(name)) return false;
    let begun = (): void => undefined;
    const hasBegun = new Promise<true>((resolve) => (begun = () => resolve(true)));
    const { signal } = this.#abort;
    const done = this.#admin.rebuild(name, { signal, onProgress: () => begun() }).then(
      () => true,
      (error: unknown) => {
        if (error instanceof RebuildUnderWayError) return false;
        this.#logger.warn({ projection: name, ...errorFields(error) }, 'a rebuild failed');
        throw error;
      },
    );
    const settled = done.then(
      () => undefined,
      () => undefined,
    );
    this.#running.set(name, settled);
    void settled.then(() => this.#running.delete(name));
    return Promise.race([hasBegun, done]);
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await Promise.all(this.#running.values());
  }
}

function commandsOf(
  admin: ProjectionAdmin,
  rebuilds: Rebuilds,
): Record<ProjectionAction, (name: string) => Promise<'rebuild' | 'live' | undefined>> {
  const changed = async (work: Promise<'rebuild' | 'live' | 'nothing'>) => {
    const target = await work;
    return target === 'nothing' ? undefined : target;
  };
  return {
    rebuild: async (name) => ((await rebuilds.begin(name)) ? 'rebuild' : undefined),
    cancel: async (name) => ((await admin.cancel(name)) ? 'rebuild' : undefined),
    pause: (name) => changed(admin.pause(name)),
    resume: (name) => changed(admin.resume(name)),
  };
}

async function describeKeys(readPool: OperatorParts['readPool']): Promise<VaultOperations['keys']> {
  const keys = await readRotationState(readPool);
  return {
    root_keys: keys.rootKeys,
    is_root_rotating: keys.rootKeys > 1,
    tenants: keys.tenants,
    tenants_rotating: keys.tenantsRotating,
  };
}

async function describeHousekeeping(
  readPool: OperatorParts['readPool'],
): Promise<VaultOperations['housekeeping']> {
  const tasks = await readHousekeepingProgress(readPool);
  return tasks.map(({ task, position, updatedAt }) => ({
    task,
    position,
    updated_at: updatedAt.toISOString(),
  }));
}

/** The operations of the vault's operator, by the functions that the command line calls. */
export function openOperator(
  { settings, logger, closers }: ProcessContext,
  { store, readPool }: OperatorParts,
  { operatorTenant, shownSettings = [] }: LimitConfig,
): VaultOperator & VaultState {
  const admin = createProjectionAdmin({ store, connectionString: settings.databaseUrl });
  const rebuilds = closers.add(new Rebuilds(admin, logger), (it) => it.close());
  const commands = commandsOf(admin, rebuilds);
  const tenantOf = createOperatorTenant(store, operatorTenant);

  async function projectionsNow() {
    // The head is read first, so that events appended in between do not look like a lag.
    const head = await store.head();
    const statuses = await readProjectionStatus(readPool);
    return { head, projections: statuses.map((status) => present(status, head)) };
  }

  return {
    isOperator: async (tenantId) => (await tenantOf()) === tenantId,
    commandProjection: (name, action) => commands[action](name),
    async projections() {
      const { projections } = await projectionsNow();
      return projections.map(({ name, status, behind, stalled_seconds }) => ({
        name,
        status,
        behind,
        stalled_seconds,
      }));
    },
    async describe() {
      const [state, keys, housekeeping] = await Promise.all([
        projectionsNow(),
        describeKeys(readPool),
        describeHousekeeping(readPool),
      ]);
      return { release, ...state, keys, housekeeping, settings: [...shownSettings] };
    },
  };
}
