export {
  createProjectionAdmin,
  type ProjectionAdmin,
  type ProjectionAdminOptions,
  type RunOptions,
} from './admin.ts';
export { projectorMigrations } from './migrations.ts';
export type { Handlers, Index, Occurrence, Projection, Row, SqlOp, Table } from './projection.ts';
export { projections } from './projections/index.ts';
export type { Logger } from './runner/run-projection.ts';
export { startProjectors, type ProjectorOptions, type Projectors } from './start.ts';
export { readProjectionStatus, type ProjectionStatus, type RebuildStatus } from './status.ts';
export type { RebuildOutcome } from './rebuild/rebuild.ts';
export { RebuildFailedError, RebuildUnderWayError, UnknownProjectionError } from './rebuild/successor.ts';
export type { TableComparison, Verification } from './rebuild/verify.ts';
