export { readHousekeepingProgress } from './checkpoint.ts';
export { leadWheneverPossible } from './leadership.ts';
export { createLostKeys, type LostKey, type LostKeys } from './lost-keys.ts';
export { housekeepingMigrations } from './migrations.ts';
export { startHousekeeping, type Housekeeping, type HousekeepingOptions } from './start.ts';
export type { SweepReport } from './sweeper.ts';
