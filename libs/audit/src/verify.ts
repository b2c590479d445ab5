import { AuditCheckpointSigned, streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import {
  comparePositions,
  parsePosition,
  startPosition,
  type EventStore,
  type Position,
  type StoredEvent,
} from '@token-vault/event-store';
import { checkpointOf, isFollowing, isSignedBy, type Checkpoint } from './checkpoint.ts';
import { gapAtEndOf, gapOf, nameOf, type Finding } from './compare.ts';
import { Findings } from './findings.ts';
import { findReplaced, KnownCheckpoints } from './known-checkpoints.ts';
import { findOutside } from './misplaced.ts';
import { publicKeyOf } from './signature.ts';
import { ReadSignatures, type CheckSignatures } from './signatures.ts';
import {
  checkStretch,
  coveredOf,
  misplacedAmong,
  moveTo,
  notFollowing,
  startOfProgress,
  type ChainProgress,
  type Covered,
} from './stretch.ts';
import { tenantOf } from './tenant-of.ts';
import { whyNotDeleted, type WatchedKeys } from './watched-keys.ts';

export interface AuditOptions {
  readonly store: EventStore;
  /** Watched: a tenant without keys must be deleted in the log. A restore knows better which keys it has. */
  readonly keyRing: Pick<KeyRing, 'hashes'> & Partial<WatchedKeys>;
  readonly checkSignatures: CheckSignatures;
  /** Positions: the pass begins at the last stretch that ended at or before `from`, and ends at `to`. */
  readonly from?: Position | undefined;
  readonly to?: Position | undefined;
  /** Checkpoints that were noted outside the log: the log must still have them. */
  readonly known?: readonly KnownCheckpoints[];
  readonly onProgress?: (position: Position, until: Position, events: number) => void;
  readonly signal?: AbortSignal;
}

export interface AuditReport {
  readonly findings: readonly Finding[];
  /** The number of findings that are not among them: only the first 1,000 are kept. */
  readonly moreFindings: number;
  readonly events: number;
  readonly checkpoints: number;
  /** Events after the last checkpoint of their tenant: they are not signed yet. */
  readonly unsealed: number;
  /** Tenants whose keys are destroyed: no signature is checked, and their checkpoints with the public key that these name. */
  readonly withoutKeys: readonly string[];
  readonly after: string;
  readonly through: string;
  /** The last checkpoint of each tenant in the pass. */
  readonly last: KnownCheckpoints;
}

/** The state of a tenant's chain at its last checkpoint, and the tenant's events since then. */
interface TenantState extends ChainProgress {
  /** The position of the tenant's first event in this pass. */
  readonly first: string;
  pending: Covered[];
}

/** One pass over the log. Its memory is limited by the events between two checkpoints. */
class Verifier {
  readonly findings = new Findings<Finding>();
  readonly withoutKeys = new Set<string>();
  events = 0;
  checkpoints = 0;
  readonly last = new KnownCheckpoints();
  /** The start of the pass: the end of a stretch, or the beginning of the log. */
  after = startPosition;
  readonly #store: EventStore;
  readonly #keyRing: AuditOptions['keyRing'];
  readonly #publicKeys = new Map<string, string | undefined>();
  readonly #states = new Map<string, TenantState>();
  readonly signatures: ReadSignatures;
  #position = 0n;
  /** The sealer signs all events up to the beginning of a stretch before it signs one of this stretch. */
  #signedTo = 0n;

  constructor({ store, keyRing, checkSignatures }: AuditOptions) {
    this.signatures = new ReadSignatures(checkSignatures);
    this.#store = store;
    this.#keyRing = keyRing;
  }

  #report(position: string, tenantId: string, problem: string): void {
    this.findings.add({ position, tenantId, problem });
  }

  /** Begins at the end of the last stretch that does not go beyond `from`. */
  async beginAt(from: Position): Promise<void> {
    for await (const events of this.#store.readStoredBackwards()) {
      for (const event of events) {
        const checkpoint = checkpointOf(event);
        if (!checkpoint || isLater(checkpoint.through, from)) continue;
        // Anybody can sign a checkpoint of a tenant without keys.
        const key = await publicKeyOf(this.#keyRing, checkpoint.tenant_id);
        if (key === undefined || !isSignedBy(checkpoint, key)) continue;
        this.after = parsePosition(checkpoint.through);
        this.#position = BigInt(this.after);
        return;
      }
    }
  }

  /** Called at the first event of a tenant in this pass. Its chain continues from its last checkpoint before the start of the pass. */
  async #beginTenant(tenantId: string, first: string): Promise<TenantState> {
    const state: TenantState = { ...startOfProgress(tenantId), first, pending: [] };
    this.#states.set(tenantId, state);
    if (this.after === startPosition) return state;
    for await (const event of this.#store.readStoredStream(streams.audit(tenantId), { backwards: true })) {
      // This pass reads the event, and names it if it is false. It may be a copy of an older checkpoint, so those before it are read too.
      const isInPass = isLater(event.position, this.after);
      const found = checkpointOf(event);
      if (found ? isLater(found.through, this.after) : isInPass) continue;
      const checkpoint = isInPass
        ? await this.#own(found, tenantId)
        : await this.#readCheckpoint(event, tenantId);
      if (checkpoint && BigInt(checkpoint.through) >= state.through)
        moveTo(state, checkpoint, event.revision);
      if (!isInPass) return state;
    }
    return state;
  }

  /** The public key of the tenant's keys; if these are destroyed, the key that the checkpoint names. */
  async #publicKeyOf({ tenant_id: tenantId, public_key: named }: Checkpoint): Promise<string> {
    if (!this.#publicKeys.has(tenantId)) {
      const own = await publicKeyOf(this.#keyRing, tenantId);
      if (own === undefined) this.withoutKeys.add(tenantId);
      this.#publicKeys.set(tenantId, own ?? named);
    }
    return this.#publicKeys.get(tenantId) ?? named;
  }

  async #readCheckpoint(event: StoredEvent, tenantId: string): Promise<Checkpoint | undefined> {
    const checkpoint = await this.#own(checkpointOf(event), tenantId);
    if (!checkpoint) this.#report(event.position, tenantId, 'the checkpoint is not signed by its tenant');
    return checkpoint;
  }

  /** Undefined unless its tenant has signed it. */
  async #own(checkpoint: Checkpoint | undefined, tenantId: string): Promise<Checkpoint | undefined> {
    if (checkpoint?.tenant_id !== tenantId) return undefined;
    return isSignedBy(checkpoint, await this.#publicKeyOf(checkpoint)) ? checkpoint : undefined;
  }

  /** Only some events have to be awaited; a promise for each event would cost more than its hash. */
  read(event: StoredEvent): Promise<void> | undefined {
    const tenantId = tenantOf(event);
    this.#count(event, tenantId);
    if (tenantId === undefined) {
      this.#report(event.position, '-', `${nameOf(event)} names no tenant`);
      return undefined;
    }
    const state = this.#states.get(tenantId);
    if (!state)
      return this.#beginTenant(tenantId, event.position).then((met) => this.#readInto(met, event, tenantId));
    return this.#readInto(state, event, tenantId);
  }

  #count({ position: text }: StoredEvent, tenantId = '-'): void {
    const position = BigInt(text);
    if (this.#store.hasDensePositions && position !== this.#position + 1n) {
      const first = this.#position + 1n;
      this.#report(first.toString(), tenantId, gapOf(position - first));
    }
    this.#position = position;
    this.events += 1;
  }

  #readInto(state: TenantState, event: StoredEvent, tenantId: string): Promise<void> | undefined {
    if (event.type === AuditCheckpointSigned.type) return this.#check(state, event, tenantId);
    const covered = coveredOf(event, tenantId);
    this.signatures.add(event, covered);
    state.pending.push(covered);
    return undefined;
  }

  async #check(state: TenantState, row: StoredEvent, tenantId: string): Promise<void> {
    const checkpoint = await this.#readCheckpoint(row, tenantId);
    // The pass can begin before the checkpoint from which it continues.
    if (!checkpoint || row.revision <= state.revision) return;
    if (!isFollowing(checkpoint, state)) {
      this.#report(row.position, tenantId, notFollowing);
      state.passed += 1;
      return;
    }
    this.checkpoints += 1;
    const { through } = checkpoint;
    const end = state.pending.findIndex(({ found }) => BigInt(found.position) > BigInt(through));
    const covered = state.pending.splice(0, end < 0 ? state.pending.length : end);
    for (const { position, problem } of checkStretch(state, { row, checkpoint }, covered))
      this.#report(position, tenantId, problem);
    // Continues from the signed state, so that one difference is reported once.
    moveTo(state, checkpoint, row.revision);
    this.last.learn(tenantId, { ...checkpoint, revision: row.revision });
    if (isLater(checkpoint.after, `${this.#signedTo}`) && !this.withoutKeys.has(tenantId))
      this.#signedTo = BigInt(checkpoint.after);
  }

  async end(head: string): Promise<number> {
    if (this.#store.hasDensePositions && this.#position < BigInt(head))
      this.#report((this.#position + 1n).toString(), '-', gapAtEndOf(BigInt(head) - this.#position));
    let unsealed = 0;
    for (const [tenantId, { first, pending }] of this.#states) {
      unsealed += pending.length;
      for (const { position, problem } of misplacedAmong(tenantId, pending))
        this.#report(position, tenantId, problem);
      const hasKeys = (await publicKeyOf(this.#keyRing, tenantId)) !== undefined;
      if (hasKeys) this.#reportLeftOut(tenantId, pending);
      await this.#reportMissingKeys(tenantId, first);
    }
    for (const { position, tenantId, problem } of this.signatures.notAmong(this.findings.kept))
      this.#report(position, tenantId, problem);
    this.findings.more += this.signatures.more;
    for await (const finding of findOutside(this.#store)) this.findings.add(finding);
    return unsealed;
  }

  /** Events that are not signed, although later events of other tenants are: the checkpoints that covered them were taken out. */
  #reportLeftOut(tenantId: string, pending: readonly Covered[]): void {
    const leftOut = pending.filter(({ found }) => BigInt(found.position) <= this.#signedTo);
    const [first] = leftOut;
    if (!first) return;
    this.#report(
      first.found.position,
      tenantId,
      `${leftOut.length} events from here on lack their checkpoint`,
    );
  }

  /** An attacker may have taken the keys away for the time of the verification, or have planted events of a tenant that never was. */
  async #reportMissingKeys(tenantId: string, first: string): Promise<void> {
    if (this.#keyRing.missing?.has(tenantId) !== true) return;
    const reason = await whyNotDeleted(this.#store, this.#keyRing, tenantId);
    if (reason === undefined) this.withoutKeys.add(tenantId);
    else this.withoutKeys.delete(tenantId);
    if (reason !== undefined) this.#report(first, tenantId, `${keysMissing}: ${reason}`);
  }
}

const keysMissing = 'the keys of the tenant are missing, so nothing of it can be checked';
const isLater = (position: string, than: string): boolean => BigInt(position) > BigInt(than);

/**
 * Computes every chain again from the stored log and compares it with the signed checkpoints. Reads only. Where positions have no gaps, a
 * missing event is found even where no checkpoint covers it yet.
 */
export async function verifyAudit(options: AuditOptions): Promise<AuditReport> {
  const { store, from, to, known = [], onProgress, signal } = options;
  const head = await store.head();
  const through = to !== undefined && comparePositions(to, head) < 0 ? to : head;
  const verifier = new Verifier(options);
  if (from !== undefined) await verifier.beginAt(from);
  for await (const events of store.readStored(verifier.after, { until: through })) {
    signal?.throwIfAborted();
    for (const event of events) {
      const checked = verifier.read(event);
      if (checked) await checked;
    }
    await verifier.signatures.check();
    onProgress?.(events.at(-1)?.position ?? verifier.after, through, events.length);
  }
  const unsealed = await verifier.end(through);
  const { events, checkpoints, withoutKeys, after, last } = verifier;
  const findings = [...verifier.findings.kept];
  const { more: moreFindings } = verifier.findings;
  for (const each of known) findings.push(...(await findReplaced(store, each)));
  const counts = { moreFindings, events, checkpoints, unsealed };
  return { findings, ...counts, withoutKeys: [...withoutKeys], after, through, last };
}
