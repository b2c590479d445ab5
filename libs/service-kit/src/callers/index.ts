export { createCallers, type Caller, type CallerDependencies, type Callers } from './callers.ts';
