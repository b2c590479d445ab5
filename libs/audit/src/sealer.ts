import { AuditCheckpointSigned, newId, streams } from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import {
  comparePositions,
  noRevision,
  parsePosition,
  startPosition,
  type EventStore,
  type Position,
  type StoredEvent,
} from '@token-vault/event-store';
import type { Logger } from '@token-vault/observability';
import type { Clock } from '@token-vault/operations';
import {
  digestOf,
  extendChain,
  hashOf,
  joinDigests,
  startOfChain,
  type ChainState,
  type EventHash,
} from './chain.ts';
import { checkpointOf, isSignedBy, signCheckpoint } from './checkpoint.ts';
import { CheckpointReplacedError, KnownCheckpoints, lastCheckpoint, type Last } from './known-checkpoints.ts';
import { readUpTo } from './read-up-to.ts';
import { publicKeyOf, signerOf } from './signature.ts';
import { tenantOf } from './tenant-of.ts';

export interface SealerOptions {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * The last checkpoints that were signed or seen. The log of a tenant is sealed only where it goes on from there: otherwise a writer of
   * the database could take out its newest checkpoints, change what they covered, and let the vault sign the change.
   */
  readonly known?: KnownCheckpoints;
  /** Called for each tenant whose log is not sealed because its last checkpoint is not one that the vault made or saw. */
  readonly onRefused?: (tenantId: string) => void;
  /** True: what earlier passes left out is signed too, so the whole log is read. By default it is read from the last stretch on. */
  readonly isWhole?: boolean;
}

interface Stretch {
  readonly after: Position;
  readonly through: Position;
}

interface PlacedHash {
  readonly position: Position;
  readonly hash: EventHash;
}

const wholeLog: Stretch = { after: startPosition, through: startPosition };

/** Maximum number of events in one stretch: limits memory and the size of a checkpoint. */
const stretchEvents = 5_000;

/** The tenant whose checkpoints cover the event. Undefined for checkpoints, and for events that name no tenant. */
export const sealedTenantOf = (event: StoredEvent): string | undefined =>
  event.type === AuditCheckpointSigned.type ? undefined : tenantOf(event);

/**
 * The stretch of the newest checkpoint with a valid signature of its tenant. A checkpoint of a deleted tenant cannot be checked, because
 * the key is destroyed. Then the stretch before is found, and its existing checkpoints are not signed again.
 */
export async function lastStretch({ store, keyRing }: SealerOptions): Promise<Stretch> {
  for await (const events of store.readStoredBackwards()) {
    for (const event of events) {
      const checkpoint = checkpointOf(event);
      if (!checkpoint) continue;
      const key = await publicKeyOf(keyRing, checkpoint.tenant_id);
      if (key !== undefined && isSignedBy(checkpoint, key))
        return { after: parsePosition(checkpoint.after), through: parsePosition(checkpoint.through) };
    }
  }
  return wholeLog;
}

/**
 * Signs a checkpoint for each tenant that has events since its last one. Only one process may do it at a time; if two do, the expected
 * revision of the append lets one succeed. The last stretch is read again: after a crash some tenants may lack their checkpoint of it. So
 * all stretches before the last one are complete, and a verification may begin at the end of any of them.
 * @returns how many checkpoints it signed
 */
export async function sealLog(options: SealerOptions): Promise<number> {
  const { store, known = new KnownCheckpoints() } = options;
  const until = await store.head();
  const begun = options.isWhole === true ? wholeLog : await lastStretch(options);
  const sealing = new Sealing(options, known, begun.after);
  for await (const events of readUpTo(store, earlier(known.seenTo, begun.after), until)) {
    for (const event of events) {
      sealing.see(event);
      if (comparePositions(event.position, begun.after) <= 0) continue;
      const isBeyond = comparePositions(event.position, begun.through) > 0;
      if (isBeyond && comparePositions(sealing.after, begun.through) < 0) await sealing.close(begun.through);
      sealing.add(event);
      if (isBeyond && sealing.events >= stretchEvents) await sealing.close(event.position);
    }
  }
  if (sealing.events > 0) await sealing.close(sealing.position);
  await sealing.learnSeen();
  known.seenTo = until;
  return sealing.signed;
}

const earlier = (one: Position | undefined, other: Position): Position =>
  one !== undefined && comparePositions(one, other) < 0 ? one : other;

/** The stretch that is being read. */
class Sealing {
  signed = 0;
  /** The number of events in this stretch so far. */
  events = 0;
  after: Position;
  position: Position;
  readonly #options: SealerOptions;
  readonly #known: KnownCheckpoints;
  /** The last checkpoint of each tenant that was looked up. */
  readonly #last = new Map<string, Last | 'refused' | undefined>();
  /** Tenants that have a checkpoint among the events that were read. */
  readonly #seen = new Set<string>();
  #hashes = new Map<string, PlacedHash[]>();

  constructor(options: SealerOptions, known: KnownCheckpoints, after: Position) {
    this.#options = options;
    this.#known = known;
    this.after = after;
    this.position = after;
  }

  see(event: StoredEvent): void {
    const checkpoint = checkpointOf(event);
    if (checkpoint) this.#seen.add(checkpoint.tenant_id);
  }

  /** Remembers also the checkpoints that other processes signed. */
  async learnSeen(): Promise<void> {
    for (const tenantId of this.#seen) await this.#lastOf(tenantId);
  }

  add(event: StoredEvent): void {
    this.events += 1;
    this.position = event.position;
    const tenantId = sealedTenantOf(event);
    if (tenantId === undefined) return;
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
    if (before === 'refused') return;
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
    this.#learn(tenantId, made);
    this.signed += 1;
  }

  async #lastOf(tenantId: string): Promise<Last | 'refused' | undefined> {
    if (this.#last.has(tenantId)) return this.#last.get(tenantId);
    const last = await this.#readLast(tenantId);
    if (last && last !== 'refused') this.#learn(tenantId, last);
    else this.#last.set(tenantId, last);
    return last;
  }

  #learn(tenantId: string, last: Last): void {
    this.#last.set(tenantId, last);
    this.#known.learn(tenantId, { ...last.checkpoint, revision: last.revision });
  }

  async #readLast(tenantId: string): Promise<Last | 'refused' | undefined> {
    const { store, keyRing } = this.#options;
    const key = await publicKeyOf(keyRing, tenantId);
    // The keys of a deleted tenant are destroyed: nothing of it is signed any more.
    if (key === undefined) return 'refused';
    try {
      const last = await lastCheckpoint(store, tenantId, this.#known.get(tenantId));
      if (!last || isSignedBy(last.checkpoint, key)) return last;
      return this.#refuse(tenantId, 'it is not signed with the key of the tenant');
    } catch (error) {
      if (!(error instanceof CheckpointReplacedError)) throw error;
      return this.#refuse(tenantId, error.message);
    }
  }

  #refuse(tenantId: string, reason: string): 'refused' {
    const { logger, onRefused } = this.#options;
    logger.error(
      { tenant_id: tenantId, reason },
      'the log of a tenant is not sealed any more: it was altered',
    );
    onRefused?.(tenantId);
    return 'refused';
  }
}

/** Undefined when the tenant's keys are destroyed. */
async function sealTenant(
  options: SealerOptions,
  tenantId: string,
  before: Last | undefined,
  { after, through, hashes }: Stretch & { readonly hashes: readonly EventHash[] },
): Promise<Last | undefined> {
  const { keyRing, store, clock } = options;
  try {
    const signer = await signerOf(keyRing, tenantId);
    const from: ChainState = before
      ? { count: before.checkpoint.count, head: Buffer.from(before.checkpoint.head, 'base64url') }
      : startOfChain(tenantId);
    const { count, head } = extendChain(from, hashes);
    const digests = joinDigests(hashes.map(digestOf));
    const state = { tenant_id: tenantId, after, through, count, head: head.toString('base64url'), digests };
    const trace = newId();
    const metadata = {
      tenant_id: tenantId,
      actor: { kind: 'system' as const, id: 'audit' },
      trace_id: trace,
      correlation_id: trace,
      occurred_at: clock.now().toISOString(),
    };
    const stream = streams.audit(tenantId);
    const revision = (before?.revision ?? noRevision) + 1;
    const given = { id: newId(), metadata };
    const data = signCheckpoint(signer, { ...given, stream, revision, data: state });
    const { type, version } = AuditCheckpointSigned;
    await store.append(stream, [{ ...given, type, version, data }], before?.revision ?? 'no-stream');
    return { checkpoint: data, revision };
  } catch (error) {
    if (error instanceof TenantKeysMissingError) return undefined;
    throw error;
  }
}
