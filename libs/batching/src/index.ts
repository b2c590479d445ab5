export { createBatcher, type Batcher, type BatcherOptions } from './batcher.ts';
export { keepPlans, keptPlans } from './kept-plans.ts';
