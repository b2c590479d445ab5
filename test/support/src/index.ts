export { type ManualClock, manualClock } from './clock.ts';
export { createTestDatabase, createTestPool, type Template, type TestDatabase } from './database.ts';
export { waitUntil } from './waiting.ts';
