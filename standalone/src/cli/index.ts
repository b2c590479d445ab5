export { CommanderError, type Command as Program } from 'commander';
export { complaintOf } from './failure.ts';
export { createProgram } from './program.ts';
