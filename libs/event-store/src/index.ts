export * from './port.ts';
export * from './append-group.ts';
export * from './entity-stream.ts';
export * from './evolve.ts';
