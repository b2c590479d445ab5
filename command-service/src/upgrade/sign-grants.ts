import { aliased, streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { execute, load } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { applicationDecider } from '../applications/decider.ts';
import { applicationSigner } from '../applications/state.ts';
import { tenantDecider } from '../tenants/decider.ts';
import { tenantSigner } from '../tenants/state.ts';

export interface SigningDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes' | 'tenantsThatAcceptUnsigned' | 'refuseUnsigned' | 'destroyKeys'>;
  /** The pool of the read models. They tell which records to look at; the log decides which are signed. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
}

const task = 'upgrade';
const t = aliased('tenants', 'tenant', 't');
const a = aliased('applications', 'application', 'a');

/** The read models of this release do not exist yet. */
function isNotThereYet(error: unknown): boolean {
  const code: unknown = (error as { code?: unknown }).code;
  return code === '42P01' || code === '42703' || code === '3F000';
}

/**
 * Tenants whose stored keys have the form of an older release. A writer of the database can set this form, so it says only where to look. What is
 * signed without a signature before is decided by the opened keys (`signed`, `signTokenEvents`).
 */
export async function tenantsToSign({ keyRing, pool }: SigningDependencies): Promise<readonly string[]> {
  const ids = await keyRing.tenantsThatAcceptUnsigned();
  if (ids.length === 0) return [];
  const { rows } = await pool.query<{ id: string }>(
    `select ${t.id} from ${t.source} where ${t.id} = any($1::uuid[]) and not ${t.is_deleted} order by ${t.id}`,
    [ids],
  );
  return rows.map(({ id }) => id);
}

async function signApplication(dependencies: SigningDependencies, tenantId: string, id: string) {
  const { store, keyRing, clock } = dependencies;
  const context = systemContext(tenantId, task, clock);
  await execute({
    store,
    stream: streams.application(tenantId, id),
    decider: applicationDecider,
    command: { kind: 'sign' },
    event: context.event.bind(context),
    signing: {
      signer: applicationSigner,
      hashes: () => keyRing.hashes(tenantId),
      isFirst: true,
    },
  });
}

/**
 * Applications come first, the tenant last: a signed tenant is completely signed, and its grants are never signed
 * again.
 */
async function signTenant(dependencies: SigningDependencies, tenantId: string): Promise<boolean> {
  const { store, keyRing, pool, clock } = dependencies;
  const stream = streams.tenant(tenantId);
  const { state } = await load(store, stream, tenantDecider);
  if (state.kind !== 'active' || state.details.wasSigned) return false;
  const { rows } = await pool.query<{ id: string }>(
    `select ${a.id} from ${a.source} where ${a.tenant_id} = $1`,
    [tenantId],
  );
  for (const { id } of rows) await signApplication(dependencies, tenantId, id);
  const context = systemContext(tenantId, task, clock);
  await execute({
    store,
    stream,
    decider: tenantDecider,
    command: { kind: 'sign' },
    event: context.event.bind(context),
    signing: { signer: tenantSigner, hashes: () => keyRing.hashes(tenantId), isFirst: true },
  });
  return true;
}

/**
 * Signs the tenants and applications of a release that did not sign. Until then their callers get 503. Any number of
 * processes may run it at once, and it may be interrupted anywhere. Undefined while the read models of this release
 * do not exist.
 */
export async function signGrants(
  dependencies: SigningDependencies,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { logger } = dependencies;
  let signed = 0;
  try {
    for (const id of await tenantsToSign(dependencies)) {
      if (signal.aborted) break;
      try {
        if (await signTenant(dependencies, id)) signed += 1;
      } catch (error) {
        if (isNotThereYet(error)) throw error;
        logger.warn({ ...errorFields(error), tenant_id: id, task }, 'a tenant was not signed');
      }
    }
  } catch (error) {
    if (isNotThereYet(error)) return undefined;
    throw error;
  }
  if (signed > 0) logger.info({ count: signed, task }, 'tenants of an older release are signed');
  return signed;
}
