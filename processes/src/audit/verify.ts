import { AuditCheckpointSigned } from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { Pool } from 'pg';
import {
  digestOf,
  extendChain,
  hashOf,
  splitDigests,
  startOfChain,
  type ChainState,
  type EventHash,
} from './chain.ts';
import { isSignedBy, parseCheckpoint, type Checkpoint } from './checkpoint.ts';
import { compareStretch, type Finding, type Found } from './compare.ts';
import { readHead, readLogRows, tenantOf, type LogRow } from './log-rows.ts';
import { signerOf } from './signature.ts';

export interface AuditOptions {
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  /** Positions: begin at the last stretch that ended at or before the one, end at the other. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly onProgress?: (position: string, until: string) => void;
  readonly signal?: AbortSignal;
}

export interface AuditReport {
  readonly findings: readonly Finding[];
  readonly events: number;
  readonly checkpoints: number;
  /** Events after the last checkpoint of their tenant: nothing is signed of them yet. */
  readonly unsealed: number;
  /** Tenants whose keys are destroyed: their checkpoints are checked by the public key that these name themselves. */
  readonly withoutKeys: readonly string[];
  readonly after: string;
  readonly through: string;
}

/** Enough to see what happened; a log that was rewritten differs everywhere. */
const mostFindings = 1_000;

/** Events of a tenant since its last checkpoint, and where its chain is. */
interface TenantState {
  chain: ChainState;
  revision: number;
  through: bigint;
  pending: { readonly hash: EventHash; readonly found: Found }[];
}

/** One pass over the log, in memory bounded by what lies between two checkpoints. */
class Verifier {
  readonly findings: Finding[] = [];
  readonly withoutKeys = new Set<string>();
  events = 0;
  checkpoints = 0;
  readonly #keyRing: AuditOptions['keyRing'];
  readonly #publicKeys = new Map<string, string | undefined>();
  readonly #states = new Map<string, TenantState>();
  #position: bigint;

  constructor(keyRing: AuditOptions['keyRing'], after: string) {
    this.#keyRing = keyRing;
    this.#position = BigInt(after);
  }

  #tell(position: string, tenantId: string, problem: string): void {
    if (this.findings.length < mostFindings) this.findings.push({ position, tenantId, problem });
  }

  #stateOf(tenantId: string): TenantState {
    let state = this.#states.get(tenantId);
    if (!state) {
      state = { chain: startOfChain(tenantId), revision: -1, through: 0n, pending: [] };
      this.#states.set(tenantId, state);
    }
    return state;
  }

  /** Of the tenant as its keys say; of the checkpoint where they are destroyed. */
  async #publicKeyOf({ tenant_id: tenantId, public_key: named }: Checkpoint): Promise<string> {
    if (!this.#publicKeys.has(tenantId)) {
      try {
        this.#publicKeys.set(tenantId, (await signerOf(this.#keyRing, tenantId)).publicKey);
      } catch (error) {
        if (!(error instanceof TenantKeysMissingError)) throw error;
        this.withoutKeys.add(tenantId);
        this.#publicKeys.set(tenantId, named);
      }
    }
    return this.#publicKeys.get(tenantId) ?? named;
  }

  async #readCheckpoint(row: LogRow, tenantId: string): Promise<Checkpoint | undefined> {
    const checkpoint = parseCheckpoint(row.data);
    const isOwn = checkpoint?.tenant_id === tenantId && row.stream === `audit-${tenantId}`;
    if (checkpoint && isOwn && isSignedBy(checkpoint, await this.#publicKeyOf(checkpoint))) return checkpoint;
    this.#tell(row.position, tenantId, 'the checkpoint is not signed by its tenant');
    return undefined;
  }

  /** Where the verification begins for a tenant, in the middle of the log. */
  async begin(row: LogRow): Promise<void> {
    const tenantId = tenantOf(row);
    const checkpoint = await this.#readCheckpoint(row, tenantId);
    if (!checkpoint) return;
    const state = this.#stateOf(tenantId);
    state.chain = { count: checkpoint.count, head: Buffer.from(checkpoint.head, 'base64url') };
    state.revision = row.revision;
    state.through = BigInt(checkpoint.through);
  }

  /** Checkpoints have to be awaited; a promise for each event would cost more than its hash. */
  read(row: LogRow): Promise<void> | undefined {
    const position = BigInt(row.position);
    const tenantId = tenantOf(row);
    if (position !== this.#position + 1n) {
      const first = this.#position + 1n;
      const gap = position - first;
      this.#tell(
        first.toString(),
        tenantId,
        gap === 1n ? 'the event is missing' : `${gap} events are missing from here on`,
      );
    }
    this.#position = position;
    this.events += 1;
    if (row.type === AuditCheckpointSigned.type) return this.#check(row, tenantId);
    const hash = hashOf(row);
    const { type, stream, revision } = row;
    const found = { position: row.position, digest: digestOf(hash), type, stream, revision };
    this.#stateOf(tenantId).pending.push({ hash, found });
    return undefined;
  }

  async #check(row: LogRow, tenantId: string): Promise<void> {
    const state = this.#stateOf(tenantId);
    const checkpoint = await this.#readCheckpoint(row, tenantId);
    if (!checkpoint || BigInt(checkpoint.through) <= state.through) return;
    this.checkpoints += 1;
    const { through } = checkpoint;
    const end = state.pending.findIndex(({ found }) => BigInt(found.position) > BigInt(through));
    const covered = state.pending.splice(0, end < 0 ? state.pending.length : end);
    const chain = extendChain(
      state.chain,
      covered.map(({ hash }) => hash),
    );
    const signed = splitDigests(checkpoint.digests);
    if (row.revision !== state.revision + 1 || state.chain.count + signed.length !== checkpoint.count)
      this.#tell(row.position, tenantId, 'a checkpoint before this one is missing');
    const found = covered.map((each) => each.found);
    const differences = compareStretch(tenantId, signed, found, through);
    for (const { position, problem } of differences) this.#tell(position, tenantId, problem);
    const head = chain.head.toString('base64url');
    if (differences.length === 0 && head !== checkpoint.head)
      this.#tell(row.position, tenantId, 'the chain up to this checkpoint is not the one that was signed');
    // On from what was signed, so that one difference is told once.
    state.chain = { count: checkpoint.count, head: Buffer.from(checkpoint.head, 'base64url') };
    state.revision = row.revision;
    state.through = BigInt(through);
  }

  end(head: string): number {
    if (this.#position < BigInt(head))
      this.#tell(
        (this.#position + 1n).toString(),
        '-',
        `${BigInt(head) - this.#position} events at the end of the log are missing`,
      );
    let unsealed = 0;
    for (const { pending } of this.#states.values()) unsealed += pending.length;
    return unsealed;
  }
}

/** The last checkpoint of each tenant that looked at nothing beyond `from`. */
async function readBeginning(pool: Pool, from: string | undefined): Promise<LogRow[]> {
  if (from === undefined) return [];
  const { rows } = await pool.query<LogRow>(
    `select distinct on (stream) position::text, stream, revision, version, id::text, type, data::text, metadata::text
      from event_store.event
      where stream >= 'audit-' and stream < 'audit.' and (data->>'through')::numeric <= $1::numeric
      order by stream, revision desc`,
    [from],
  );
  return rows;
}

/**
 * Recomputes every chain from the log as it is stored and holds it against what was signed. Reads only. Positions of this log
 * have no gaps, so a missing event is known even where nothing is signed yet.
 */
export async function verifyAudit(options: AuditOptions): Promise<AuditReport> {
  const { pool, keyRing, from, to, onProgress, signal } = options;
  const head = await readHead(pool);
  const through = to !== undefined && BigInt(to) < BigInt(head) ? to : head;
  const beginning = await readBeginning(pool, from);
  const ends = beginning.map((row) => BigInt(parseCheckpoint(row.data)?.through ?? '0'));
  const after = ends.reduce((latest, end) => (end > latest ? end : latest), 0n).toString();
  const verifier = new Verifier(keyRing, after);
  for (const row of beginning) await verifier.begin(row);
  for await (const rows of readLogRows(pool, after, through)) {
    signal?.throwIfAborted();
    for (const row of rows) {
      const checked = verifier.read(row);
      if (checked) await checked;
    }
    onProgress?.(rows.at(-1)?.position ?? after, through);
  }
  const unsealed = verifier.end(through);
  const { findings, events, checkpoints, withoutKeys } = verifier;
  return { findings, events, checkpoints, unsealed, withoutKeys: [...withoutKeys], after, through };
}
