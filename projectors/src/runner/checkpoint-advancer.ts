import { createBatcher } from '@token-vault/batching';
import type { Position } from '@token-vault/event-store';
import { FencedError } from './failures.ts';
import { openSession, type Session } from './session.ts';
import { statement } from './statements.ts';

/** A live projection for which a stretch of the log has no changes. */
interface Advance {
  readonly name: string;
  readonly generation: number;
  readonly from: Position;
  readonly to: Position;
}

/** Moves checkpoints of projections that have nothing to write. */
export interface CheckpointAdvancer {
  /** Uses the same fence as a written batch. @throws FencedError */
  advance(move: Advance): Promise<void>;
  close(): Promise<void>;
}

const advanceAll = `
  with moved as (
    update projections.checkpoint c set position = m.new_position, updated_at = now()
    from unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[])
      as m(name, generation, old_position, new_position)
    where c.name = m.name and c.generation = m.generation and c.status = 'live' and c.position = m.old_position
    returning c.name, c.position
  )
  select name, pg_notify('projection_progress', name || ':' || position) from moved`;

/** The parameters of `advanceAll`. */
const columnsOf = (moves: readonly Advance[]) => [
  moves.map((move) => move.name),
  moves.map((move) => move.generation),
  moves.map((move) => move.from),
  moves.map((move) => move.to),
];

/**
 * Most events change two of the projections. The others would each need a round trip to move their checkpoints. One
 * connection moves all of them in one statement.
 */
export function createCheckpointAdvancer(connectionString: string): CheckpointAdvancer {
  let opening: Promise<Session> | undefined;
  let isClosed = false;

  function session(): Promise<Session> {
    opening ??= openSession({ connectionString, name: 'projector checkpoints' });
    return opening;
  }

  async function drop(): Promise<void> {
    const lost = opening;
    opening = undefined;
    await lost?.then((it) => it.close()).catch(() => undefined);
  }

  async function advanceTogether(moves: readonly Advance[]): Promise<readonly (undefined | Error)[]> {
    try {
      const rows = await (await session()).query<{ name: string }>(statement(advanceAll, columnsOf(moves)));
      const moved = new Set(rows.map((row) => row.name));
      return moves.map((move) => (moved.has(move.name) ? undefined : new FencedError(move.name)));
    } catch (error) {
      await drop();
      throw error;
    }
  }

  const batcher = createBatcher<Advance, undefined>({
    run: advanceTogether,
    maxItems: 100,
    keys: (move) => [move.name],
  });

  return {
    async advance(move) {
      if (isClosed) throw new FencedError(move.name);
      await batcher.add(move);
    },
    async close() {
      isClosed = true;
      await batcher.idle();
      await drop();
    },
  };
}
