import { AuditCheckpointSigned, newId, streams } from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { errorFields, type Clock, type Logger } from '@token-vault/service-kit';
import type { Pool, PoolClient } from 'pg';
import {
  digestOf,
  extendChain,
  hashOf,
  joinDigests,
  startOfChain,
  type ChainState,
  type EventHash,
} from './chain.ts';
import { isSignedBy, parseCheckpoint, signCheckpoint, type Checkpoint } from './checkpoint.ts';
import { readHead, readLogRows, tenantOf } from './log-rows.ts';
import { signerOf } from './signature.ts';

export interface SealerOptions {
  readonly database: Pool | PoolClient;
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Last {
  readonly checkpoint: Checkpoint;
  readonly revision: number;
}

interface Stretch {
  readonly after: string;
  readonly through: string;
}

/** Most events of one stretch: bounds memory and the size of a checkpoint. */
const stretchEvents = 5_000;

/** The last checkpoint of each tenant. */
async function readLast(database: Pool | PoolClient): Promise<Map<string, Last>> {
  const { rows } = await database.query<{ data: string; revision: number }>(
    `select e.data::text, e.revision from event_store.stream s
      join event_store.event e on e.stream = s.name and e.revision = s.revision
      where s.name >= 'audit-' and s.name < 'audit.'`,
  );
  const last = new Map<string, Last>();
  for (const { data, revision } of rows) {
    const checkpoint = parseCheckpoint(data);
    if (checkpoint) last.set(checkpoint.tenant_id, { checkpoint, revision });
  }
  return last;
}

/**
 * The last stretch first, once more: a crash may have left tenants without their checkpoint of it. So all stretches before the
 * last one are complete, and a verification may begin at the end of any of them.
 */
function whereToGoOn(last: ReadonlyMap<string, Last>): Stretch {
  let found: Stretch = { after: '0', through: '0' };
  for (const { checkpoint } of last.values())
    if (BigInt(checkpoint.through) > BigInt(found.through)) found = checkpoint;
  return found;
}

/**
 * Signs a checkpoint for each tenant that has events since its last one. Only one process may do it at a time; should two, the
 * expected revision of the append lets one win.
 * @returns how many checkpoints it signed
 */
export async function sealLog(options: SealerOptions): Promise<number> {
  const { database } = options;
  const last = await readLast(database);
  const until = await readHead(database);
  let { after, through } = whereToGoOn(last);
  let signed = through === '0' ? 0 : await sealStretch(options, last, { after, through });
  for (;;) {
    after = through;
    const end = await endOfStretch(database, after, until);
    if (end === undefined) return signed;
    through = end;
    signed += await sealStretch(options, last, { after, through });
  }
}

async function endOfStretch(
  database: Pool | PoolClient,
  after: string,
  until: string,
): Promise<string | undefined> {
  const { rows } = await database.query<{ position: string | null }>(
    `select max(position)::text as position from (
       select position from event_store.event where position > $1::bigint and position <= $2::bigint
       order by position limit ${stretchEvents}) stretch`,
    [after, until],
  );
  return rows[0]?.position ?? undefined;
}

async function sealStretch(
  options: SealerOptions,
  last: Map<string, Last>,
  stretch: Stretch,
): Promise<number> {
  const hashes = new Map<string, EventHash[]>();
  for await (const rows of readLogRows(options.database, stretch.after, stretch.through)) {
    for (const row of rows) {
      if (row.type === AuditCheckpointSigned.type) continue;
      const tenantId = tenantOf(row);
      const ofTenant = hashes.get(tenantId) ?? [];
      ofTenant.push(hashOf(row));
      hashes.set(tenantId, ofTenant);
    }
  }
  let signed = 0;
  for (const [tenantId, ofTenant] of hashes) {
    const before = last.get(tenantId);
    if (before && BigInt(before.checkpoint.through) >= BigInt(stretch.through)) continue;
    const made = await sealTenant(options, tenantId, before, stretch, ofTenant);
    if (!made) continue;
    last.set(tenantId, made);
    signed += 1;
  }
  return signed;
}

/** Undefined when the tenant's keys are destroyed, or its last checkpoint is forged: that is for a verification to tell. */
async function sealTenant(
  options: SealerOptions,
  tenantId: string,
  before: Last | undefined,
  { after, through }: Stretch,
  hashes: readonly EventHash[],
): Promise<Last | undefined> {
  const { keyRing, store, clock, logger } = options;
  try {
    const signer = await signerOf(keyRing, tenantId);
    if (before && !isSignedBy(before.checkpoint, signer.publicKey)) {
      logger.error({ tenant_id: tenantId }, 'the last audit checkpoint of a tenant is not signed by it');
      return undefined;
    }
    const from: ChainState = before
      ? { count: before.checkpoint.count, head: Buffer.from(before.checkpoint.head, 'base64url') }
      : startOfChain(tenantId);
    const { count, head } = extendChain(from, hashes);
    const digests = joinDigests(hashes.map(digestOf));
    const state = { tenant_id: tenantId, after, through, count, head: head.toString('base64url'), digests };
    const checkpoint = signCheckpoint(signer, state);
    const { type, version } = AuditCheckpointSigned;
    const trace = newId();
    const metadata = {
      tenant_id: tenantId,
      actor: { kind: 'system' as const, id: 'audit' },
      trace_id: trace,
      correlation_id: trace,
      occurred_at: clock.now().toISOString(),
    };
    const event = { id: newId(), type, version, data: checkpoint, metadata };
    const expected = before?.revision ?? 'no-stream';
    const { revision } = await store.append(streams.audit(tenantId), [event], expected);
    return { checkpoint, revision };
  } catch (error) {
    if (error instanceof TenantKeysMissingError) return undefined;
    throw error;
  }
}

/** Any constant, as long as every release uses the same. */
const lockKey = '7310579512035183';

/** Takes one connection of the pool, for as long as it seals. */
export type PooledSealerOptions = Omit<SealerOptions, 'database'> & { readonly pool: Pool };

/** As `sealLog`, unless another process is at it. Undefined then. */
export async function sealLogOnce({ pool, ...options }: PooledSealerOptions): Promise<number | undefined> {
  const client = await pool.connect();
  try {
    const { rows } = await client.query<{ held: boolean }>('select pg_try_advisory_lock($1) as held', [
      lockKey,
    ]);
    return rows[0]?.held === true ? await sealLog({ ...options, database: client }) : undefined;
  } finally {
    // With the connection goes the lock, whatever has happened.
    client.release(true);
  }
}

/** Seals the log every `intervalMs`, and once more when closed. */
export function startSealer(options: PooledSealerOptions & { readonly intervalMs?: number }): {
  close(): Promise<void>;
} {
  const { logger, intervalMs = 60_000 } = options;
  let running: Promise<unknown> = Promise.resolve();
  const seal = () => {
    running = running
      .then(() => sealLogOnce(options))
      .catch((error: unknown) => logger.warn(errorFields(error), 'the audit log could not be sealed'));
    return running;
  };
  const timer = setInterval(() => void seal(), intervalMs);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await seal();
    },
  };
}
