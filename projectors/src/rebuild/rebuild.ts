import { comparePositions, type EventStore, type Position } from '@token-vault/event-store';
import type { Projection } from '../projection.ts';
import { tryToLead } from '../runner/leadership.ts';
import { openSession, type Session } from '../runner/session.ts';
import { fill, type FillOptions, type FillOutcome } from './fill.ts';
import { indexForReaders } from './reader-indexes.ts';
import { dropFormer, holdLive, releaseLive, swap } from './live.ts';
import {
  RebuildUnderWayError,
  resumeOrCreateSuccessor,
  successorSchema,
  UnknownProjectionError,
  type Purpose,
} from './successor.ts';

export interface RebuildOptions {
  readonly store: EventStore;
  readonly connectionString: string;
  readonly maxBatch: number;
  /** Aborting leaves the successor as it is. The next rebuild continues from it; a verification begins again. */
  readonly signal: AbortSignal;
  readonly onProgress: (position: Position, until: Position, events: number) => void;
}

export type RebuildOutcome = 'swapped' | 'cancelled' | 'aborted';

/**
 * Fills a successor from the log while the live read model stays in service, then swaps it in.
 * @throws RebuildUnderWayError, RebuildFailedError, UnknownProjectionError, EventMissingError, and the error of a lost connection.
 */
export async function rebuildProjection(
  projection: Projection,
  options: RebuildOptions,
): Promise<RebuildOutcome> {
  return withSuccessor(projection, 'swap', options, async (filling, holder) => {
    await dropFormer(holder, projection.name);
    const head = () => options.store.head();
    const steps = [
      () => fillToEnd(filling, head),
      () => indexForReaders(filling, holder),
      () => fillToEnd(filling, head),
    ];
    for (const step of steps) {
      const outcome = await step();
      if (outcome !== 'filled') return outcome;
    }
    const held = await fillWhileHeld(filling, holder);
    const isSwapped = held === 'filled' && (await swap(holder, projection.name, filling.generation));
    if (!isSwapped) {
      await releaseLive(holder);
      return held === 'aborted' ? held : 'cancelled';
    }
    await dropFormer(holder, projection.name);
    return 'swapped';
  });
}

/**
 * Opens two sessions: one fills the successor and leads the rebuild, the other holds the live read model. Both are
 * always closed.
 */
export async function withSuccessor<Result>(
  projection: Projection,
  purpose: Purpose,
  options: RebuildOptions,
  work: (filling: FillOptions, holder: Session) => Promise<Result>,
): Promise<Result> {
  const { connectionString } = options;
  const { name } = projection;
  const schema = successorSchema(name, purpose);
  const session = await openSession({ connectionString, name: `rebuild ${name}`, schema });
  try {
    if (!(await tryToLead(session, `${name}:rebuild`))) throw new RebuildUnderWayError(name);
    const { generation } = await resumeOrCreateSuccessor(session, projection, purpose);
    const holder = await openSession({ connectionString, name: `rebuild ${name} holder` });
    try {
      return await work({ ...options, session, projection, purpose, generation }, holder);
    } finally {
      await holder.close();
    }
  } finally {
    await session.close();
  }
}

/**
 * Before the live read model is held, the distance to it must be small. Each round is shorter than the one before.
 */
export async function fillToEnd(filling: FillOptions, end: () => Promise<Position>): Promise<FillOutcome> {
  for (let round = 0; round < 4; round++) {
    const outcome = await fill(filling, await end());
    if (outcome !== 'filled') return outcome;
  }
  return 'filled';
}

/**
 * Stops the live read model and brings the successor to its position, so that reads never go back in time. The live
 * read model stays held.
 */
export async function fillWhileHeld(filling: FillOptions, holder: Session): Promise<FillOutcome> {
  const live = await holdLive(holder, filling.projection.name);
  if (live === undefined) throw new UnknownProjectionError(filling.projection.name);
  // What is compared must be at the position of the live read model.
  if (filling.purpose === 'verify') return fill(filling, live);
  // After a restore the checkpoint may belong to another log. Then the head is the last position that can be reached.
  const head = await filling.store.head();
  return fill(filling, comparePositions(live, head) > 0 ? head : live);
}
