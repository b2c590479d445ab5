export { readCheckpoints, type CheckpointsRead } from './checkpoints.ts';
export { createEntityFinder } from './found-entities.ts';
export { KnownRevocations } from './known-revocations.ts';
export {
  createProjectionProgress,
  type ProjectionProgress,
  type ProjectionProgressOptions,
} from './projection-progress.ts';
export {
  noteAppends,
  watchReadModels,
  type FoundRights,
  type ReadModelWatch,
  type ReadModelWatchOptions,
} from './read-model-watch.ts';
export { createRevocations, type RevocationsOptions } from './revocations.ts';
