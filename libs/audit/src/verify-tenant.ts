import { AuditCheckpointSigned, streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { parsePosition, startPosition, type EventStore, type StoredEvent } from '@token-vault/event-store';
import { checkpointOf, isFollowing, isSignedBy } from './checkpoint.ts';
import { compareStretch, gapAtEndOf, gapOf, type Finding } from './compare.ts';
import { readCursor, signCursor, UnknownCursorError, type VerifiedTo } from './cursor.ts';
import { Findings } from './findings.ts';
import { findOutside } from './misplaced.ts';
import { parseJson } from './parse-json.ts';
import { signerOf } from './signature.ts';
import { ReadSignatures, type CheckSignatures } from './signatures.ts';
import {
  checkStretch,
  coveredOf,
  moveTo,
  notFollowing,
  startOfProgress,
  type ChainProgress,
  type Covered,
  type Placed,
} from './stretch.ts';
import { tenantOf } from './tenant-of.ts';

export interface TenantAuditOptions {
  readonly store: Pick<
    EventStore,
    'head' | 'readStored' | 'readStoredOutside' | 'readStoredStream' | 'hasDensePositions'
  >;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly checkSignatures: CheckSignatures;
  readonly tenantId: string;
  /** `cursor` of the report of the previous part. Without it, the verification begins at the start of the log. */
  readonly cursor?: string | undefined;
  /** The verification ends with the first checkpoint that covers a later event of the tenant. */
  readonly until?: Date | undefined;
  /** The approximate number of events of the log that are read: the last stretch of a checkpoint is always read completely. */
  readonly mostEvents: number;
}

export interface TenantAuditReport {
  readonly findings: readonly Omit<Finding, 'tenantId'>[];
  /** The number of findings of this part that are not among them: only the first 1,000 are kept. */
  readonly moreFindings: number;
  /** The number of events of the tenant that were compared with its checkpoints. */
  readonly events: number;
  readonly checkpoints: number;
  /** Events of the tenant after its last checkpoint, among those that were read: they are not signed yet. */
  readonly unsigned: number;
  /** The end of the last stretch that was verified. */
  readonly through: string;
  /** The time at which the last verified checkpoint was signed. Undefined when this part verified no checkpoint. */
  readonly signedAt: string | undefined;
  /** Names the place where the next part begins. Undefined when the verification is complete. */
  readonly cursor: string | undefined;
}

/** An event of a request that began before `until` may be stored after `until`, by at most this time. */
const lateMs = 5 * 60 * 1000;

const occurredAt = ({ metadata }: StoredEvent): string | undefined => {
  const { occurred_at: at } = (parseJson(metadata) ?? {}) as { readonly occurred_at?: unknown };
  return typeof at === 'string' ? at : undefined;
};

/** Where a part begins. */
interface Start {
  readonly progress: ChainProgress;
  readonly position: string;
}

/** One part of a pass over the chain of one tenant. Events of other tenants are skipped and not reported. */
class TenantVerifier {
  readonly findings = new Findings<Omit<Finding, 'tenantId'>>();
  events = 0;
  checkpoints = 0;
  unsigned = 0;
  signedAt: string | undefined;
  read = 0;
  readonly #options: TenantAuditOptions;
  readonly #publicKey: string;
  readonly #progress: ChainProgress;
  readonly #signed: AsyncIterator<StoredEvent>;
  /** The next checkpoint, whose stretch is being read. */
  #next: Placed | undefined;
  #position: bigint;
  #latest: StoredEvent | undefined;
  #covered: Covered[] = [];
  readonly signatures: ReadSignatures;

  constructor(options: TenantAuditOptions, publicKey: string, { progress, position }: Start) {
    const { store, tenantId, checkSignatures } = options;
    this.#options = options;
    this.signatures = new ReadSignatures(checkSignatures);
    this.#publicKey = publicKey;
    this.#progress = progress;
    this.#position = BigInt(position);
    const from = { from: progress.revision + 1 };
    this.#signed = store.readStoredStream(streams.audit(tenantId), from)[Symbol.asyncIterator]();
  }

  get through(): string {
    return this.#progress.through.toString();
  }

  #report(position: string, problem: string): void {
    this.findings.add({ position, problem });
  }

  /** Finds the checkpoint that continues the chain. */
  async advance(): Promise<void> {
    this.#next = undefined;
    for (;;) {
      const result: IteratorResult<StoredEvent, unknown> = await this.#signed.next();
      if (result.done === true) return;
      const row = result.value;
      const checkpoint = checkpointOf(row);
      const isOwn = checkpoint?.tenant_id === this.#options.tenantId;
      if (!isOwn || !isSignedBy(checkpoint, this.#publicKey))
        this.#report(row.position, 'the checkpoint is not signed by its tenant');
      else if (isFollowing(checkpoint, this.#progress)) {
        this.#next = { row, checkpoint };
        return;
      } else {
        this.#report(row.position, notFollowing);
        this.#progress.passed += 1;
      }
    }
  }

  isPassedBy({ position }: StoredEvent): boolean {
    return this.#next !== undefined && BigInt(this.#next.checkpoint.through) < BigInt(position);
  }

  /** Ends the stretches that lie before `position`. @returns true when this part must end here */
  async reach(position: bigint): Promise<boolean> {
    while (this.#next && BigInt(this.#next.checkpoint.through) < position) {
      this.#close(this.#next);
      const isDone = this.#isBeyond();
      await this.advance();
      if (isDone) {
        this.#next = undefined;
        return true;
      }
      if (this.#next && this.#isFull()) return true;
    }
    return false;
  }

  /** All events up to `head` were read. */
  async end(head: bigint): Promise<void> {
    if (await this.reach(head + 1n)) return;
    const gap = head - this.#position;
    if (this.#options.store.hasDensePositions && gap > 0n)
      this.#report((this.#position + 1n).toString(), gapAtEndOf(gap));
  }

  /** The place where the next part begins. Undefined when there is no further checkpoint. */
  get next(): VerifiedTo | undefined {
    return this.#next && { position: this.#position.toString(), revision: this.#progress.revision };
  }

  async checkSignatures(): Promise<void> {
    await this.signatures.check();
    for (const { position, problem } of this.signatures.notAmong(this.findings.kept))
      this.#report(position, problem);
    this.findings.more += this.signatures.more;
  }

  /** For the first part of a verification. The report must not name a stream of another tenant. */
  async findOutside(): Promise<void> {
    const { store, tenantId: own } = this.#options;
    for await (const { position, tenantId } of findOutside(store))
      if (tenantId === own) this.#report(position, 'an event of the tenant is outside the log');
  }

  /** Ends the reading of the checkpoints. */
  async close(): Promise<void> {
    await this.#signed.return?.();
  }

  #isFull = (): boolean => this.read >= this.#options.mostEvents;

  #isBeyond(): boolean {
    const { until } = this.#options;
    const latest = this.#latest && occurredAt(this.#latest);
    return until !== undefined && latest !== undefined && Date.parse(latest) > until.getTime() + lateMs;
  }

  #close(placed: Placed): void {
    this.#reachPosition(BigInt(placed.checkpoint.through) + 1n);
    for (const { position, problem } of checkStretch(this.#progress, placed, this.#covered))
      this.#report(position, problem);
    this.checkpoints += 1;
    this.events += this.#covered.length;
    this.#covered = [];
    this.signedAt = occurredAt(placed.row);
    moveTo(this.#progress, placed.checkpoint, placed.row.revision);
  }

  /** The next event that is stored or signed is at `position`. */
  #reachPosition(position: bigint): void {
    const first = this.#position + 1n;
    if (this.#options.store.hasDensePositions && position > first)
      this.#report(first.toString(), gapOf(position - first));
    this.#position = position - 1n;
  }

  /** @returns true when this part must end here */
  add(event: StoredEvent): boolean {
    const position = BigInt(event.position);
    this.#reachPosition(position);
    this.#position = position;
    this.read += 1;
    if (event.type !== AuditCheckpointSigned.type && tenantOf(event) === this.#options.tenantId)
      this.#addOwn(event);
    // After the last checkpoint the events are only counted, up to twice the limit, because no part comes after this one.
    if (!this.#next) return this.read >= 2 * this.#options.mostEvents;
    // Before the stretch of the next checkpoint, every event of the tenant is signed and verified. So this part may end there.
    return this.#isFull() && position <= BigInt(this.#next.checkpoint.after);
  }

  #addOwn(event: StoredEvent): void {
    const { tenantId } = this.#options;
    const { found, ...rest } = coveredOf(event, tenantId);
    this.signatures.add(event, { found, ...rest });
    // An attacker may have changed the tenant of another tenant's event. The report must not name the stream of that tenant.
    const stream = event.stream.includes(tenantId) ? event.stream : 'another stream';
    const covered = { ...rest, found: { ...found, stream } };
    this.#latest = event;
    if (!this.#next) this.unsigned += 1;
    else if (BigInt(event.position) > BigInt(this.#next.checkpoint.after)) this.#covered.push(covered);
    else {
      const extra = compareStretch(tenantId, [], [covered.found], event.position);
      for (const { position, problem } of extra) this.#report(position, problem);
    }
  }
}

/** @throws UnknownCursorError */
async function startAt({ store, tenantId, cursor }: TenantAuditOptions, publicKey: string): Promise<Start> {
  const progress = startOfProgress(tenantId);
  if (cursor === undefined) return { progress, position: startPosition };
  const { position, revision } = readCursor(publicKey, cursor);
  if (revision < 0) return { progress, position };
  for await (const row of store.readStoredStream(streams.audit(tenantId), { from: revision, maxCount: 1 })) {
    const checkpoint = checkpointOf(row);
    if (row.revision !== revision || !checkpoint || !isSignedBy(checkpoint, publicKey)) break;
    if (BigInt(checkpoint.through) > BigInt(position)) break;
    moveTo(progress, checkpoint, row.revision);
    return { progress, position };
  }
  // The checkpoint was there when the cursor was signed: the database is an older backup, or was altered since.
  throw new UnknownCursorError();
}

/**
 * Computes the chain of one tenant again and compares it with the tenant's signed checkpoints, as `verifyAudit` does for all tenants, but in
 * parts of bounded length. Reads only.
 * @throws UnknownCursorError
 * @throws TenantKeysMissingError when the tenant is deleted
 */
export async function verifyTenantAudit(options: TenantAuditOptions): Promise<TenantAuditReport> {
  const { store, keyRing, tenantId, cursor } = options;
  const head = await store.head();
  const signer = await signerOf(keyRing, tenantId);
  const start = await startAt(options, signer.publicKey);
  const verifier = new TenantVerifier(options, signer.publicKey, start);
  try {
    await verifier.advance();
    const log = store.readStored(parsePosition(start.position), { until: head });
    const isCut = await readUntilCut(verifier, log);
    if (!isCut) await verifier.end(BigInt(head));
    await verifier.checkSignatures();
    if (cursor === undefined) await verifier.findOutside();
  } finally {
    await verifier.close();
  }
  const { events, checkpoints, unsigned, through, signedAt, next } = verifier;
  const { kept: findings, more: moreFindings } = verifier.findings;
  return {
    findings,
    moreFindings,
    events,
    checkpoints,
    unsigned,
    through,
    signedAt,
    cursor: next && signCursor(signer, next),
  };
}

async function readUntilCut(
  verifier: TenantVerifier,
  log: AsyncIterable<readonly StoredEvent[]>,
): Promise<boolean> {
  for await (const events of log)
    for (const event of events) {
      // A promise for each event would cost more than its hash.
      if (verifier.isPassedBy(event) && (await verifier.reach(BigInt(event.position)))) return true;
      if (verifier.add(event)) return true;
    }
  return false;
}
