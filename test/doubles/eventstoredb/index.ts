export { startEventStoreDbDouble, type DoubleOptions, type EventStoreDbDouble } from './double.ts';
export type { Faults } from './faults.ts';
