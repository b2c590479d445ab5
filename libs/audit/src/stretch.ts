import type { StoredEvent } from '@token-vault/event-store';
import {
  digestOf,
  extendChain,
  hashOf,
  splitDigests,
  startOfChain,
  type ChainState,
  type EventHash,
} from './chain.ts';
import type { Checkpoint } from './checkpoint.ts';
import { compareStretch, nameOf, type Finding, type Found } from './compare.ts';
import { misplacementOf } from './misplaced.ts';

/** An event between two checkpoints of its tenant. */
export interface Covered {
  readonly hash: EventHash;
  readonly found: Found;
  /** Why the event cannot be in its place, whatever was signed. */
  readonly misplaced: string | undefined;
}

export function coveredOf(event: StoredEvent, tenantId: string): Covered {
  const hash = hashOf(event);
  const { position, type, stream, revision } = event;
  const found = { position, digest: digestOf(hash), type, stream, revision };
  return { hash, found, misplaced: misplacementOf(event, tenantId) };
}

/** The checkpoints do not tell of these events when an attacker stored them before the log was signed. */
export const misplacedAmong = (tenantId: string, covered: readonly Covered[]): Finding[] =>
  covered.flatMap(({ found, misplaced }) =>
    misplaced === undefined
      ? []
      : [{ position: found.position, tenantId, problem: `${nameOf(found)} ${misplaced}` }],
  );

/** The state of a tenant's chain at the last checkpoint that was verified, and the position, revision and version of this checkpoint. */
export interface ChainProgress {
  chain: ChainState;
  revision: number;
  through: bigint;
  version: number;
  /** The number of checkpoints that were passed over since, because they do not follow it. */
  passed: number;
}

/** An attacker can store a copy of an older checkpoint. */
export const notFollowing =
  'the checkpoint does not follow the one before it: what it covers was signed before, or it is in an older form';

export const startOfProgress = (tenantId: string): ChainProgress => ({
  chain: startOfChain(tenantId),
  revision: -1,
  through: 0n,
  version: 0,
  passed: 0,
});

/** A checkpoint and the event that holds it. */
export interface Placed {
  readonly row: StoredEvent;
  readonly checkpoint: Checkpoint;
}

/** The differences between the events of a stretch and the checkpoint that covers them. `progress` ends where the stretch begins. */
export function checkStretch(
  { chain, revision, passed }: ChainProgress,
  { row, checkpoint }: Placed,
  covered: readonly Covered[],
): Finding[] {
  const { tenant_id: tenantId, through, count, head, digests } = checkpoint;
  const signed = splitDigests(digests);
  const finding = (problem: string): Finding => ({ position: row.position, tenantId, problem });
  const isNext = row.revision === revision + passed + 1 && chain.count + signed.length === count;
  const found = covered.map((each) => each.found);
  const differences = compareStretch(tenantId, signed, found, through);
  const end = extendChain(
    chain,
    covered.map(({ hash }) => hash),
  );
  // Any other difference also changes the chain, so the chain is not reported then.
  const isSameChain = !isNext || differences.length > 0 || end.head.toString('base64url') === head;
  return [
    ...(isNext ? [] : [finding('a checkpoint before this one is missing')]),
    ...differences,
    ...misplacedAmong(tenantId, covered),
    ...(isSameChain ? [] : [finding('the chain up to this checkpoint is not the one that was signed')]),
  ];
}

/** Continues the progress at this checkpoint. */
export function moveTo(
  progress: ChainProgress,
  { count, head, through, version }: Checkpoint,
  revision: number,
): void {
  progress.chain = { count, head: Buffer.from(head, 'base64url') };
  progress.revision = revision;
  progress.through = BigInt(through);
  progress.version = version;
  progress.passed = 0;
}
