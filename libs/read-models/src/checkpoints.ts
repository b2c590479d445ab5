import { isReadModelName } from '@token-vault/contracts';
import { parsePosition, type Position } from '@token-vault/event-store';
import type pg from 'pg';
import { KnownRevocations, type Revocation } from './known-revocations.ts';

export interface Checkpoint {
  readonly position: Position;
  /** `live`, `paused`, `failed`, `outdated`. */
  readonly status: string;
}

/** The checkpoints of all projections and the revocations, as read from the database at one moment. */
export interface CheckpointsRead {
  /** The time before the read was sent, in milliseconds of the monotonic clock. */
  readonly beganMs: number;
  readonly checkpoints: Map<string, Checkpoint>;
  readonly revocations: KnownRevocations;
}

interface Row {
  readonly generation: number;
  readonly revocations: readonly Revocation[];
  readonly checkpoints: readonly {
    readonly name: string;
    readonly position: string;
    readonly status: string;
  }[];
}

/** One statement, so that the revocations are all those up to the generation. */
const readAll = `
  select a.generation::float8 as generation,
    (select coalesce(json_agg(json_build_array(r.generation, r.stream) order by r.generation), '[]')
       from projections.revocation r where r.generation > $1) as revocations,
    (select coalesce(json_agg(json_build_object('name', c.name, 'position', c.position::text, 'status', c.status)), '[]')
       from projections.checkpoint c) as checkpoints
  from projections.access a`;

/** @param before the revocations that are known before the read */
export async function readCheckpoints(
  client: Pick<pg.Client, 'query'>,
  before?: KnownRevocations,
): Promise<CheckpointsRead> {
  const beganMs = performance.now();
  // It has a name, so that the session keeps its plan (ADR 11): it is read for each batch of writes that wait.
  const values = [before?.generation];
  const { rows } = await client.query<Row>({ name: 'checkpoints', text: readAll, values });
  const [row] = rows;
  if (!row) throw new Error('projections.access has no row');
  const checkpoints = new Map<string, Checkpoint>();
  for (const { name, position, status } of row.checkpoints)
    if (isReadModelName(name)) checkpoints.set(name, { position: parsePosition(position), status });
  const { generation } = row;
  const revocations = before?.upTo(generation, row.revocations) ?? new KnownRevocations(generation);
  return { beganMs, checkpoints, revocations };
}
