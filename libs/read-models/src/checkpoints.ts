import { comparePositions, parsePosition, startPosition, type Position } from '@token-vault/event-store';
import type pg from 'pg';

export interface Checkpoint {
  readonly position: Position;
  /** `live`, `paused`, `failed`, `outdated`. */
  readonly status: string;
}

/** The checkpoints of all projections, as read from the database. */
export interface CheckpointsRead {
  /** The time before the read was sent, in milliseconds of the monotonic clock. */
  readonly beganMs: number;
  readonly checkpoints: Map<string, Checkpoint>;
  /** Incremented when a revocation is confirmed (ADR 21). */
  readonly accessGeneration: string;
}

interface Row {
  readonly access_generation: string;
  /** Null when there is no projection yet. */
  readonly name: string | null;
  readonly position: string;
  readonly status: string;
}

const readAll = `
  select a.generation::text as access_generation, c.name, c.position::text as position, c.status
  from projections.access a left join projections.checkpoint c on true`;

/** Reads the checkpoints. A position from a notification is kept when it is beyond the one that was read. */
export async function readCheckpoints(
  client: Pick<pg.Client, 'query'>,
  heard: ReadonlyMap<string, Checkpoint>,
): Promise<CheckpointsRead> {
  const beganMs = performance.now();
  const { rows } = await client.query<Row>(readAll);
  const checkpoints = new Map<string, Checkpoint>();
  for (const { name, position: text, status } of rows) {
    if (name === null) continue;
    const stored = parsePosition(text);
    const known = heard.get(name)?.position ?? startPosition;
    checkpoints.set(name, { position: comparePositions(known, stored) > 0 ? known : stored, status });
  }
  return { beganMs, checkpoints, accessGeneration: rows[0]?.access_generation ?? '' };
}
