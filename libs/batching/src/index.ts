export { createBatcher, type Batcher, type BatcherOptions } from './batcher.ts';
