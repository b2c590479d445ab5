export { Closers } from './closers.ts';
export {
  keyDurability,
  openEventStore,
  openKeyRing,
  openLog,
  openReadModels,
  type DataSettings,
  type EventStoreChoice,
  type ProcessContext,
} from './data.ts';
export { reportDatabaseRights } from './database-rights.ts';
export { consoleFiles } from './console-files.ts';
export { openExpressions } from './expressions.ts';
export { commandHandlers, queryHandlers } from './handlers.ts';
export { ignoreIdleConnectionErrors } from './ignore-idle-connection-errors.ts';
export { openHousekeeping } from './housekeeping.ts';
export { createServiceApp, openServiceParts, type ServiceParts } from './http.ts';
export { measureProjections } from './projection-lag.ts';
export { traceProjections } from './trace-projections.ts';
export { readLimits, type LimitConfig } from './limits.ts';
export { createWallReport, openReactorParts } from './reactors/parts.ts';
export { createPrincipals, type Principals } from './reactors/principals.ts';
export { openOperator } from './operator.ts';
export { openProxy } from './proxies.ts';
export { openRunner } from './reactors/runner.ts';
export { createFeed, type FeedChoice } from './reactors/feed.ts';
export { release } from './release.ts';
export { readRootKeySettings, type RootKeySettings } from './root-key-settings.ts';
export {
  nextRootKeyFile,
  openRootKeys,
  readNextRootKey,
  readRootKeyFile,
  type HeldRootKeys,
  type RootKeySources,
  requireRootKey,
} from './root-keys.ts';
export { watchStorage } from './storage.ts';
export { schema } from './schema.ts';
export { findSchemaDifferences } from './schema-differences.ts';
export {
  ConfigurationError,
  readCommonSettings,
  readDatabaseUrl,
  readCheckpointsFile,
  readEgressAllow,
  readRunsPerTenant,
  readSandboxAccounts,
  readEventStoreChoice,
  readFeedChoice,
  type CommonSettings,
} from './settings.ts';
