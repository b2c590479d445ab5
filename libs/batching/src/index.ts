export { byCallback } from './by-callback.ts';
export { createBatcher, type Batcher, type BatcherOptions } from './batcher.ts';
export { keepIndexPlans, keepPlans, keptIndexPlans } from './kept-plans.ts';
