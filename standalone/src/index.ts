export { readConfig, StandaloneError, type StandaloneConfig } from './config.ts';
export type { Credentials } from './credentials.ts';
export { startStandalone, type RunningStandalone } from './start.ts';
