export type { Account, Identity } from './account.ts';
export type { Logger } from './logger.ts';
export type { PostgresExit } from './server.ts';
export type { PostgresSettings } from './settings.ts';
export { defaultDataDirectory } from './data-directory.ts';
export { type RunningPostgres, runningPostgres } from './running.ts';
export { DataDirectoryInUseError, StartError } from './start-error.ts';
export { type EmbeddedPostgres, type EmbeddedPostgresOptions, startEmbeddedPostgres } from './supervisor.ts';
