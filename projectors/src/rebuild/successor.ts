import { parsePosition, startPosition, type Position } from '@token-vault/event-store';
import { nextSchema, temporarySchema, type Projection } from '../projection.ts';
import { schemaSql } from '../runner/schema.ts';
import type { Culprit } from '../runner/culprit.ts';
import type { Session } from '../runner/session.ts';
import { statement } from '../runner/statements.ts';
import { beginVerification, verifiedPosition } from '../runner/verified-position.ts';

/** `swap`: the successor replaces the live read model. `verify`: it is compared with the live one and dropped. */
export type Purpose = 'swap' | 'verify';

/**
 * A verification fills temporary tables: another session of the same role could change any others, so that they equal rows that it planted in the
 * live read model.
 */
export const successorSchema = (name: string, purpose: Purpose): string =>
  purpose === 'verify' ? temporarySchema : nextSchema(name);

/** A read model that is filled beside the live one. */
export interface Successor {
  readonly generation: number;
  readonly status: 'live' | 'paused' | 'failed';
  readonly position: Position;
}

interface SuccessorRow {
  generation: number;
  status: Successor['status'];
  position: string;
}

/** Of a verification: only in its own session, which has the tables. */
export async function readSuccessor(
  session: Session,
  projection: Projection,
  purpose: Purpose,
): Promise<Successor | undefined> {
  const [row] = await session.query<SuccessorRow>(
    statement(
      `select r.generation, r.status, case r.purpose when 'verify' then ${verifiedPosition} else r.position::text end as position
       from projections.rebuild r join projections.checkpoint c using (name)
       where r.name = $1 and r.purpose = $2 and r.version = $3 and r.generation = c.generation + 1
         and (r.purpose = 'verify' or to_regnamespace($4) is not null)`,
      [projection.name, purpose, projection.version, nextSchema(projection.name)],
    ),
  );
  return row && { ...row, position: parsePosition(row.position) };
}

/**
 * Continues a successor of the same version that a killed rebuild left, or creates one at the beginning of the log. A verification always creates
 * one: its tables end with its session.
 */
export async function resumeOrCreateSuccessor(
  session: Session,
  projection: Projection,
  purpose: Purpose,
): Promise<Successor> {
  const { name, version } = projection;
  const found = purpose === 'swap' ? await readSuccessor(session, projection, purpose) : undefined;
  if (found) {
    await session.query(
      statement(
        `update projections.rebuild set status = 'live', error_event_id = null, error_code = null where name = $1`,
        [name],
      ),
    );
    return { ...found, status: 'live' };
  }
  if (purpose === 'verify') await requireTemporaryTables(session);
  await session.client.query(`
    begin;
    delete from projections.rebuild where name = '${name}';
    drop schema if exists ${nextSchema(name)} cascade;
    ${beginVerification};
    ${schemaSql(projection, successorSchema(name, purpose), 'for filling')};
    insert into projections.rebuild (name, purpose, version, generation, status, position)
    select name, '${purpose}', ${version}, generation + 1, 'live', 0 from projections.checkpoint
    where name = '${name}';
    commit`);
  const created = await readSuccessor(session, projection, purpose);
  if (!created) throw new UnknownProjectionError(name);
  return { ...created, position: startPosition };
}

async function requireTemporaryTables(session: Session): Promise<void> {
  const [refused] = await session.query<{ role: string; database: string }>(
    statement(
      `select quote_ident(current_user) as role, quote_ident(current_database()) as database
        where not has_database_privilege(current_database(), 'temporary')`,
      [],
    ),
  );
  if (refused) throw new TemporaryTablesRefusedError(refused);
}

/** Stores in the status why the successor cannot be made, and throws that error. */
export async function failSuccessor(
  session: Session,
  name: string,
  failure: Pick<Culprit, 'code'> & Partial<Culprit>,
): Promise<never> {
  await session.query(
    statement(
      `update projections.rebuild set status = 'failed', error_event_id = $2, error_code = $3, updated_at = now()
        where name = $1`,
      [name, failure.eventId ?? null, failure.code],
    ),
  );
  throw new RebuildFailedError(name, failure);
}

/** Ends a rebuild and drops its tables. A process that is filling them fails at the fence. */
export async function dropSuccessor(session: Session, name: string): Promise<boolean> {
  const [, deleted] = await session.transaction([
    statement(`select set_config('lock_timeout', '30s', true)`, []),
    statement('delete from projections.rebuild where name = $1 returning name', [name]),
    { name: '', text: `drop schema if exists ${nextSchema(name)} cascade`, values: [] },
  ]);
  return (deleted ?? []).length > 0;
}

/** The projection does not belong to this release, or has never run. */
export class UnknownProjectionError extends Error {
  readonly code = 'unknown_projection';
  constructor(name: string) {
    super(`there is no projection ${JSON.stringify(name)} to rebuild`);
  }
}

/** The role has no right to make temporary tables. */
class TemporaryTablesRefusedError extends Error {
  readonly code = 'temporary_tables_refused';
  constructor({ role, database }: { readonly role: string; readonly database: string }) {
    super(
      `a verification fills temporary tables, and the role ${role} may make none: grant temporary on database ${database} to ${role}`,
    );
  }
}

/** Another process is filling the successor of this projection. */
export class RebuildUnderWayError extends Error {
  readonly code = 'rebuild_under_way';
  constructor(name: string) {
    super(`projection ${name} is being rebuilt by another process`);
  }
}

/** An event cannot be applied to the successor, or its rows cannot be indexed. The live read model is untouched. */
export class RebuildFailedError extends Error {
  readonly code = 'rebuild_failed';
  readonly eventId: string | undefined;
  constructor(name: string, { eventId, event, code }: Pick<Culprit, 'code'> & Partial<Culprit>) {
    const at = eventId === undefined ? '' : ` at event ${eventId} (${event})`;
    super(`the rebuild of ${name} failed${at}: ${code}`);
    this.eventId = eventId;
  }
}
