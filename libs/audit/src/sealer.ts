import { AuditCheckpointSigned, newId, streams } from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import {
  comparePositions,
  parsePosition,
  startPosition,
  type EventStore,
  type Position,
  type StoredEvent,
} from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import type { Clock } from '@token-vault/operations';
import { lockKeys, whileLocked } from '@token-vault/postgres';
import type { Pool } from 'pg';
import {
  digestOf,
  extendChain,
  hashOf,
  joinDigests,
  startOfChain,
  type ChainState,
  type EventHash,
} from './chain.ts';
import { checkpointOf, isSignedBy, signCheckpoint, type Checkpoint } from './checkpoint.ts';
import { signerOf } from './signature.ts';
import { tenantOf } from './tenant-of.ts';

export interface SealerOptions {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Last {
  readonly checkpoint: Checkpoint;
  readonly revision: number;
}

interface Stretch {
  readonly after: Position;
  readonly through: Position;
}

interface PlacedHash {
  readonly position: Position;
  readonly hash: EventHash;
}

/** Maximum number of events in one stretch: limits memory and the size of a checkpoint. */
const stretchEvents = 5_000;

/**
 * The stretch of the newest checkpoint with a valid signature of its tenant. A checkpoint of a deleted tenant cannot be checked, because
 * the key is destroyed. Then the stretch before is found, and its existing checkpoints are not signed again.
 */
async function lastStretch({ store, keyRing }: SealerOptions): Promise<Stretch> {
  for await (const events of store.readStoredBackwards()) {
    for (const event of events) {
      const checkpoint = checkpointOf(event);
      if (!checkpoint) continue;
      const key = await publicKeyOf(keyRing, checkpoint.tenant_id);
      if (key !== undefined && isSignedBy(checkpoint, key))
        return { after: parsePosition(checkpoint.after), through: parsePosition(checkpoint.through) };
    }
  }
  return { after: startPosition, through: startPosition };
}

async function publicKeyOf(keyRing: SealerOptions['keyRing'], tenantId: string): Promise<string | undefined> {
  try {
    return (await signerOf(keyRing, tenantId)).publicKey;
  } catch (error) {
    if (error instanceof TenantKeysMissingError) return undefined;
    throw error;
  }
}

/**
 * Signs a checkpoint for each tenant that has events since its last one. Only one process may do it at a time; if two do, the expected
 * revision of the append lets one succeed. The last stretch is read again: after a crash some tenants may lack their checkpoint of it. So
 * all stretches before the last one are complete, and a verification may begin at the end of any of them.
 * @returns how many checkpoints it signed
 */
export async function sealLog(options: SealerOptions): Promise<number> {
  const { store } = options;
  const until = await store.head();
  const begun = await lastStretch(options);
  const sealing = new Sealing(options, begun.after);
  for await (const events of store.readStored(begun.after, { until })) {
    for (const event of events) {
      const isBeyond = comparePositions(event.position, begun.through) > 0;
      if (isBeyond && comparePositions(sealing.after, begun.through) < 0) await sealing.close(begun.through);
      sealing.add(event);
      if (isBeyond && sealing.events >= stretchEvents) await sealing.close(event.position);
    }
  }
  if (sealing.events > 0) await sealing.close(sealing.position);
  return sealing.signed;
}

/** The stretch that is being read. */
class Sealing {
  signed = 0;
  /** The number of events in this stretch so far. */
  events = 0;
  after: Position;
  position: Position;
  readonly #options: SealerOptions;
  /** The last checkpoint of each tenant that was looked up. */
  readonly #last = new Map<string, Last | undefined>();
  #hashes = new Map<string, PlacedHash[]>();

  constructor(options: SealerOptions, after: Position) {
    this.#options = options;
    this.after = after;
    this.position = after;
  }

  add(event: StoredEvent): void {
    this.events += 1;
    this.position = event.position;
    const tenantId = tenantOf(event);
    if (event.type === AuditCheckpointSigned.type || tenantId === undefined) return;
    const placed = { position: event.position, hash: hashOf(event) };
    const ofTenant = this.#hashes.get(tenantId);
    if (ofTenant) ofTenant.push(placed);
    else this.#hashes.set(tenantId, [placed]);
  }

  /** Signs the stretch, and begins the next one. */
  async close(through: Position): Promise<void> {
    const { after } = this;
    for (const [tenantId, hashes] of this.#hashes) await this.#seal(tenantId, hashes, { after, through });
    this.#hashes = new Map();
    this.events = 0;
    this.after = through;
  }

  async #seal(tenantId: string, hashes: readonly PlacedHash[], stretch: Stretch): Promise<void> {
    const before = await this.#lastOf(tenantId);
    const signed = before ? parsePosition(before.checkpoint.through) : startPosition;
    const left = hashes.filter(({ position }) => comparePositions(position, signed) > 0);
    if (left.length === 0) return;
    const after = comparePositions(signed, stretch.after) > 0 ? signed : stretch.after;
    const made = await sealTenant(this.#options, tenantId, before, {
      after,
      through: stretch.through,
      hashes: left.map(({ hash }) => hash),
    });
    if (!made) return;
    this.#last.set(tenantId, made);
    this.signed += 1;
  }

  async #lastOf(tenantId: string): Promise<Last | undefined> {
    if (this.#last.has(tenantId)) return this.#last.get(tenantId);
    let last: Last | undefined;
    const newest = { backwards: true, maxCount: 1 };
    for await (const event of this.#options.store.readStoredStream(streams.audit(tenantId), newest)) {
      const checkpoint = checkpointOf(event);
      if (checkpoint) last = { checkpoint, revision: event.revision };
    }
    this.#last.set(tenantId, last);
    return last;
  }
}

/** Undefined when the tenant's keys are destroyed, or its last checkpoint is forged, which the verification reports. */
async function sealTenant(
  options: SealerOptions,
  tenantId: string,
  before: Last | undefined,
  { after, through, hashes }: Stretch & { readonly hashes: readonly EventHash[] },
): Promise<Last | undefined> {
  const { keyRing, store, clock, logger } = options;
  try {
    const signer = await signerOf(keyRing, tenantId);
    if (before && !isSignedBy(before.checkpoint, signer.publicKey)) {
      logger.error(
        { tenant_id: tenantId },
        'the last audit checkpoint of a tenant is not signed with its key',
      );
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

/** `pool`: the key ring's Postgres. One of its connections holds the lock of the sealer. */
export type PooledSealerOptions = SealerOptions & { readonly pool: Pool };

/** As `sealLog`. Undefined when another process is sealing. */
export function sealLogOnce({ pool, ...options }: PooledSealerOptions): Promise<number | undefined> {
  const isHeld = () => undefined;
  return whileLocked<number | undefined>(pool, lockKeys.auditSealer, () => sealLog(options), { isHeld });
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
