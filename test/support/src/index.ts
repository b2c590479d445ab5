export { isCollected } from './collected.ts';
export { type ManualClock, manualClock } from './clock.ts';
export {
  type Command,
  type Ended,
  printed,
  refusalOf,
  resultOf,
  runCommand,
  startCommand,
} from './command.ts';
export { createTestDatabase, createTestPool, type Template, type TestDatabase } from './database.ts';
export { fieldsOf } from './event-data.ts';
export { processSettingsOf, type ProcessSettings } from './process-settings.ts';
export { cardNumber, cardToken, plainApplication, revealingApplication } from './stack-builders.ts';
export { type Answer, type Client, createClient, type RequestOptions } from './stack-client.ts';
export { hasFullRuns, runsOf } from './runs.ts';
export {
  createDataDirectory,
  metricsOf,
  type Exit,
  removeDataDirectory,
  spawnStandalone,
  type SpawnedStandalone,
  type StandaloneOptions,
  spawnVault,
  type StandaloneProcess,
  startStandaloneProcess,
} from './stack.ts';
export {
  eventStoreDoubleOf,
  type EventStoreDouble,
  hasDouble,
  lackOfDouble,
  saveLog,
  startEventStoreDouble,
} from './event-store-server.ts';
export { loadLog, type TestStack, testStack } from './test-stack.ts';
export { forbiddenUrls, unfitUrls } from './ssrf-corpus.ts';
export { superuserUrl } from './superuser-url.ts';
export { testDirectory } from './test-directory.ts';
export { waitUntil } from './waiting.ts';
