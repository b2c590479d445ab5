export { byCallback } from './by-callback.ts';
export { createPool, VaultClient } from './client.ts';
export { describeSchemas } from './catalogue.ts';
export { keepIndexPlans, keepPlans, keptIndexPlans } from './kept-plans.ts';
export { listenTo, openListener, watchLoss } from './listener.ts';
export { lock, tryLock, tryLockShared, unlock, whileLocked } from './locks.ts';
export { lockKeys } from './lock-keys.ts';
export { streamOf } from './stream.ts';
export { tryHold, type SessionLock } from './session-locks.ts';
