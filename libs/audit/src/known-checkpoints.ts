import { streams } from '@token-vault/contracts';
import type { EventStore, Position, StoredEvent } from '@token-vault/event-store';
import { checkpointOf, isFollowing, type Checkpoint, type CheckpointData } from './checkpoint.ts';
import type { Finding } from './compare.ts';

/** The remembered part of a checkpoint. The signature covers its content, and is the same each time the same content is signed. */
export interface KnownCheckpoint {
  /** In the stream of the checkpoints of its tenant. */
  readonly revision: number;
  readonly through: string;
  readonly signature: string;
}

/** A checkpoint, and its revision in the stream of the checkpoints of its tenant. */
export interface Last<Data extends CheckpointData = CheckpointData> {
  readonly checkpoint: Data;
  readonly revision: number;
}

/**
 * The last checkpoint of each tenant that was signed or seen. It is kept outside the log: from the log alone nobody can tell that its newest
 * checkpoints were taken out.
 */
export class KnownCheckpoints implements Iterable<readonly [tenantId: string, known: KnownCheckpoint]> {
  /** Checkpoints up to this position of the log were seen. Undefined before the first pass of this process. */
  seenTo: Position | undefined;
  readonly #known = new Map<string, KnownCheckpoint>();

  get(tenantId: string): KnownCheckpoint | undefined {
    return this.#known.get(tenantId);
  }

  /** Keeps the later one. */
  learn(tenantId: string, { revision, through, signature }: KnownCheckpoint): void {
    if (revision > (this.get(tenantId)?.revision ?? -1))
      this.#known.set(tenantId, { revision, through, signature });
  }

  [Symbol.iterator](): MapIterator<[string, KnownCheckpoint]> {
    return this.#known[Symbol.iterator]();
  }
}

type StreamReader = Pick<EventStore, 'readStoredStream'>;

/** The log no longer has the checkpoint of the tenant that was signed or seen. */
export class CheckpointReplacedError extends Error {
  readonly code = 'checkpoint_replaced';
}

/**
 * The last checkpoint of the tenant in the log, with a signature that is not checked yet.
 * @throws CheckpointReplacedError unless it is the known one, or follows it; or when it does not follow the one before it
 */
export async function lastCheckpoint(
  store: StreamReader,
  tenantId: string,
  known: KnownCheckpoint | undefined,
): Promise<Last<Checkpoint> | undefined> {
  const events = await newestEvents(store, tenantId, known?.revision);
  const [first] = events;
  const isKept =
    first?.revision === known?.revision && first && checkpointOf(first)?.signature === known?.signature;
  if (known && !isKept)
    throw new CheckpointReplacedError('the last checkpoint of the tenant was taken out or replaced');
  let last: Last<Checkpoint> | undefined;
  for (const event of events) {
    const checkpoint = checkpointOf(event);
    // Behind a copy of an older checkpoint, the chain would go on from there.
    if (!checkpoint || !isFollowing(checkpoint, last?.checkpoint))
      throw new CheckpointReplacedError(
        'the last checkpoint of the tenant does not follow the one before it',
      );
    last = { checkpoint, revision: event.revision };
  }
  return last;
}

/** In the order of the stream: all from `revision` on, or the last two. */
async function newestEvents(
  store: StreamReader,
  tenantId: string,
  revision: number | undefined,
): Promise<StoredEvent[]> {
  const range = revision === undefined ? { backwards: true, maxCount: 2 } : { from: revision };
  const events: StoredEvent[] = [];
  for await (const event of store.readStoredStream(streams.audit(tenantId), range)) events.push(event);
  return revision === undefined ? events.toReversed() : events;
}

/** A finding for each known checkpoint that the log no longer has. */
export async function findReplaced(store: StreamReader, known: KnownCheckpoints): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [tenantId, { revision, through, signature }] of known) {
    const found = await checkpointAt(store, tenantId, revision);
    if (found?.signature === signature) continue;
    const problem = `the checkpoint that was signed up to here (revision ${revision}) was taken out or replaced`;
    findings.push({ position: through, tenantId, problem });
  }
  return findings;
}

async function checkpointAt(
  store: StreamReader,
  tenantId: string,
  revision: number,
): Promise<Checkpoint | undefined> {
  const only = { from: revision, maxCount: 1 };
  for await (const event of store.readStoredStream(streams.audit(tenantId), only))
    if (event.revision === revision) return checkpointOf(event);
  return undefined;
}
