export { createEventStoreDbEventStore, type EventStoreDbOptions } from './eventstoredb-event-store.ts';
