export {
  createMemoryEventLog,
  createMemoryEventStore,
  type MemoryEventLog,
  type MemoryEventStoreOptions,
} from './memory-event-store.ts';
